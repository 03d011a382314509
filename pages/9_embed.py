"""A chart alone, for an iframe in a wiki or a design document: /embed?chart=NAME&embed=true and the inputs."""

from explorer import embed
from explorer.frame import bare

bare("embed")
embed.show()
