"""What the article and the paper say, judged: each claim with the model's numbers and a verdict.

May import everything that computes. It never holds a number that the model can compute.
"""
