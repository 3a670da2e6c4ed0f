"""Which model may do the work now, and what follows when one cannot. The clock is the caller's."""
