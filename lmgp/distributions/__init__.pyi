from .noise import NoiseTrial, ObservationNoise
from .student import Student

__all__ = ["NoiseTrial", "ObservationNoise", "Student"]
