"""Comparisons of models: asked for, and how one stands."""
