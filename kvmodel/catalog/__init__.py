"""Facts: models, GPUs, links, engine releases and assumptions, rows of `data/*.toml` that each name a source.

May import the ground (words, units, errors, files), no other package. It never computes more than
a row adds up to: parameters and weights are here, the time and memory that follow from them are not.
"""

from kvmodel.catalog.lookup import (
    gpu as gpu,
)
from kvmodel.catalog.lookup import (
    gpu_ids as gpu_ids,
)
from kvmodel.catalog.lookup import (
    id_of as id_of,
)
from kvmodel.catalog.lookup import (
    link as link,
)
from kvmodel.catalog.lookup import (
    link_ids as link_ids,
)
from kvmodel.catalog.lookup import (
    model as model,
)
from kvmodel.catalog.lookup import (
    model_id as model_id,
)
from kvmodel.catalog.lookup import (
    model_ids as model_ids,
)
from kvmodel.catalog.lookup import (
    source as source,
)
from kvmodel.catalog.lookup import (
    table as table,
)
from kvmodel.catalog.lookup import (
    validated as validated,
)
from kvmodel.catalog.rows import (
    Basis as Basis,
)
from kvmodel.catalog.rows import (
    Gpu as Gpu,
)
from kvmodel.catalog.rows import (
    KvLayers as KvLayers,
)
from kvmodel.catalog.rows import (
    Link as Link,
)
from kvmodel.catalog.rows import (
    Model as Model,
)
from kvmodel.catalog.rows import (
    ParameterCounts as ParameterCounts,
)
from kvmodel.catalog.rows import (
    SourcedNumber as SourcedNumber,
)
