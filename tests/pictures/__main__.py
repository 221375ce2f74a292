"""``python -m pictures``: draw all pictures into etc/manual/pictures."""

from pictures.catalogue import DIRECTORY, pictures

if __name__ == "__main__":
    for name, text in pictures().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
