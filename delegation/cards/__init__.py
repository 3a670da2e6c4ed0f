"""Cards as people write them: files and folders of Markdown, YAML, JSON and JSON lines, read strictly.

`delegation.card.Card` stays the value; here is how one comes out of a file, with the line of every mistake.
"""

from delegation.cards.fields import CardFields, schema
from delegation.cards.folder import read_cards
from delegation.cards.found import CardSet, FoundCard, Problem

__all__ = ["CardFields", "CardSet", "FoundCard", "Problem", "read_cards", "schema"]
