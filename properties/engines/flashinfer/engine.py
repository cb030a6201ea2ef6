"""FlashInfer's adapters."""

from cumae.properties.engines.adapter import Engine

ENGINE = Engine("flashinfer", "flashinfer", ("0.7.2", "0.7.2.post1", "0.7.4"), "flashinfer-python")
