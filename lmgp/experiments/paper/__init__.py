"""The evaluation of Wacker and Filippone (2022), figure by figure, as the command ``lmgp reproduce`` runs it."""
