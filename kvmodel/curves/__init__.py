"""A result over a range: what the charts and the live slider draw.

May import recovery, evidence and what they rest on. It never draws, and knows no colour and no words.
"""
