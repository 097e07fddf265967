"""Record -> text -> tokens: formats, chat templates, labels and packs. Opens no file and decodes no medium."""
