"""The page on keywords says what is so."""

from server.constraint import ConstraintCompiler
from tests.fakes import byte_vocabulary
from tests.schema.keyword_table import PAGE, all_keywords, examples, page


def test_every_keyword_of_the_draft_has_a_row() -> None:
    assert len(all_keywords()) > 55
    assert all_keywords() - {each.keyword for each in examples()} == set()


def test_the_page_is_up_to_date() -> None:
    made = page(ConstraintCompiler(byte_vocabulary(), can_retry=True))
    assert PAGE.read_text("utf-8") == made, "run `make keywords`"
