"""Comparisons: one card done by several models, each as often as the others, and what can honestly be said of them."""
