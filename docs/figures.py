"""The directive `{drawn}`: a picture of `docs/_drawn` as a figure with a caption."""

from docutils.nodes import Node, caption, container, image, paragraph
from sphinx.directives.patches import Figure


class Drawn(Figure):
    """A picture of `docs/_drawn` in its two forms, of which one is seen.

    On the page of its name in the tutorial it is a numbered figure, to which `{numref}` can lead. Other pages show it
    without a number.
    """

    def run(self) -> list[Node]:
        """Return a figure with two images and a caption."""
        (name,) = self.arguments
        folder, _, page = self.state.document.settings.env.docname.rpartition("/")
        has_number = folder == "tutorial" and name.startswith(f"{page}-")
        if has_number:
            self.options["name"] = name
        self.arguments = [f"/_drawn/{name}-light.svg"]
        figure, *others = super().run()
        light = next(figure.findall(image))
        light["classes"].append("only-light")
        light["loading"] = "lazy"  # so that the one that is not shown is not loaded
        dark = image(**{**light.attributes, "uri": f"/_drawn/{name}-dark.svg", "classes": ["only-dark"]})
        if has_number:
            figure["classes"].append("drawn")
            figure.insert(1, dark)
            return [figure, *others]
        below = next(figure.findall(caption))
        words = paragraph(below.rawsource, "", *below.children)
        words.source, words.line = below.source, below.line  # without which it is not translated
        return [container("", light, dark, words, classes=["drawn"]), *others]
