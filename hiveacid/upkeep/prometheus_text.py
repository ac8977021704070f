"""Samples in the text format of Prometheus."""

from collections.abc import Iterable

from hiveacid.upkeep.metrics import Metric, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def prometheus_text(samples: Iterable[Sample]) -> str:
    """Return samples as text; all samples of a metric follow its description.

    Args:
        samples: The samples in any order; of several with the same labels, the last one counts.
    """
    by_metric: dict[Metric, dict[str, float]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, {})[_labels(sample)] = sample.value
    lines = []
    for metric, values in by_metric.items():
        lines.append(f"# HELP {metric.name} {metric.help}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines += [f"{metric.name}{labels} {value!r}" for labels, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _labels(sample: Sample) -> str:
    # A name in a metastore may contain any character.
    shown = [f'{name}="{sample.labels[name].translate(_ESCAPES)}"' for name in sample.metric.labels]
    return f"{{{','.join(shown)}}}" if shown else ""
