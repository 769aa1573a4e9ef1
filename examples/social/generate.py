"""Writes a random social graph as two Parquet files: python generate.py PEOPLE ACQUAINTANCES."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

CITIES = ["Lisbon", "Nairobi", "Osaka", "Quito", "Tallinn"]


def names(numbers: np.ndarray) -> pa.Array:
    """Return p0000001 and so on."""
    text = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width=7, padding="0")
    return pc.binary_join_element_wise("p", text, "")


def main() -> None:
    """Write people.parquet and knows.parquet into the current folder."""
    people, acquaintances = (int(word) for word in sys.argv[1:3])
    random = np.random.default_rng(2026)
    city = pa.array(CITIES).take(pa.array(random.choice(5, people, p=[0.3, 0.25, 0.2, 0.15, 0.1])))
    born = pa.array(random.integers(1930, 2012, people), pa.int32())
    pq.write_table(
        pa.table({"name": names(np.arange(people)), "city": city, "born": born}),
        "people.parquet",
        row_group_size=65_536,
    )
    # Few know many: ends are drawn with a heavy head.
    ends = (random.random((acquaintances, 2)) ** 2 * people).astype(np.int64)
    since = pa.array(random.integers(1990, 2026, acquaintances), pa.int32())
    pq.write_table(
        pa.table({"from": names(ends[:, 0]), "to": names(ends[:, 1]), "since": since}),
        "knows.parquet",
        row_group_size=262_144,
    )


if __name__ == "__main__":
    main()
