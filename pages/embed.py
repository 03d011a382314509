"""A chart alone, for an iframe in a wiki or a design document: /embed?chart=NAME&embed=true and the inputs."""

from explorer.frame import bare
from explorer.sections import embed

bare("embed")
embed.show()
