"""The arguments of a call in each notation: the grammar that holds them, and the reader."""
