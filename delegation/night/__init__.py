"""Night shifts: many cards in one go. What to start next is decided here, over plain values and without a clock."""
