"""The notebook itself: a text file with a line for each note."""


class Notebook:
    """Lines in a file."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        """Every line, oldest first."""
        return self.path.read_text().splitlines() if self.path.exists() else []

    def add(self, text):
        """Write a line; returns its number."""
        with self.path.open("a") as file:
            file.write(" ".join(text.split()) + "\n")
        return len(self.lines())
