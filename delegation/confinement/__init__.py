"""Operating-system walls around what a model, a setup or a verify runs."""

from delegation.confinement.choice import Probe, find_confiner, probe
from delegation.confinement.walls import Confiner, GitPlaces, Walls, agent_walls

__all__ = ["Confiner", "GitPlaces", "Probe", "Walls", "agent_walls", "find_confiner", "probe"]
