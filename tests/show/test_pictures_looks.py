"""Pictures of matplotlib: nothing of them is cut off or invisible; titles; notebooks."""

import pytest
from looks import PICTURES, look_at
from samples import ONE, words

from lrpnumpy.show import plot


@pytest.mark.parametrize("name", PICTURES)
def test_everything_is_inside_the_figure_and_visible(name):
    look_at(PICTURES[name]())


def test_a_picture_shows_itself_in_a_notebook():
    figure = plot.waterfall(ONE["visits"]())
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["feature_map visits", "series", "waterfall", "memory", "bars", "beeswarm"])
def test_titles_name_the_target_and_labels_the_unit(name):
    said = words(PICTURES[name]())
    assert "discharge" in said and "mm" in said
