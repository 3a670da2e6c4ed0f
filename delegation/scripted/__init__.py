"""A scripted model server on loopback: the demo's model where there is none, and the tests' endpoint.

It speaks the real wire formats over real HTTP, so nothing in front of it knows that no model answers.
"""
