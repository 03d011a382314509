"""A `config.json` of Hugging Face becomes a row of the catalog, or a refusal that says why.

May import the ground and the catalog. It never runs code of a repository, fetches nothing, and guesses nothing: what a
file leaves open is refused, or named as assumed.
"""
