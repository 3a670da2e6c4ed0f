"""The parts behind `delegation.process`: output, environment, tree, supervisor."""
