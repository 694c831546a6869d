"""Vergence inside other programs: a scikit-learn estimator, an encoder ready for use."""
