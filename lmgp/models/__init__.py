"""What a user fits: scikit-learn regressors."""
