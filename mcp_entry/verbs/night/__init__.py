"""Nights: asked for, waited for, and how one stands."""
