"""What a reader may choose: the Case, the questions' own inputs, their limits, and how they travel in an address.

May import the ground and the catalog. It never computes an answer.
"""
