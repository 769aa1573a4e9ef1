"""A graph in a bucket and a graph on a disk give the same answers, value for value.

The stories are those that embedded and served graphs are compared by.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from tests.places import new_prefix
from tests.server.helpers import SCHEMA
from tests.server.stories import STORIES, Notes, Story
from tests.servers.seaweed import Seaweed


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_bucket_and_a_disk_tell_the_same_story(story: Story, s3: Seaweed, tmp_path: Path) -> None:
    told: list[Notes] = []
    for place in (tmp_path / "g", new_prefix(s3.bucket)):
        folder = tmp_path / str(len(told))
        folder.mkdir()
        told.append(Notes())
        with og.init(place, SCHEMA, durability="none") as graph:
            story(graph, told[-1], folder)
    disk, bucket = (notes.lines for notes in told)
    assert len(disk) >= 5
    for number, (here, there) in enumerate(zip(disk, bucket, strict=True)):
        assert here == there, f"note {number} of {story.__name__}"
