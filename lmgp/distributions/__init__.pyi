from .noise import NoiseTrial, ObservationNoise, Student

__all__ = ["NoiseTrial", "ObservationNoise", "Student"]
