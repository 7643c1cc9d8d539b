//! Smart case, as ripgrep has it: a pattern without an upper-case letter ignores case. Pure.

use regex_syntax::ast::{self, Ast, ClassSetItem, Literal, Visitor};

/// Whether the pattern has a letter of its own and none of them is upper-case. A pattern that cannot be parsed has none.
pub(super) fn ignores_case(pattern: &str, nest_limit: u32) -> bool {
    let parsed = ast::parse::ParserBuilder::new().nest_limit(nest_limit).build().parse(pattern);
    let letters = parsed.map(|ast| ast::visit(&ast, Letters::default()));
    matches!(letters, Ok(Ok(Letters { has_any: true, has_upper: false })))
}

/// The same for a text that is taken literally.
pub(super) fn literal_ignores_case(text: &str) -> bool {
    !text.chars().any(char::is_uppercase)
}

/// The characters that a pattern spells out, also as ends of ranges. `\W` and `\p{Lu}` spell out none.
#[derive(Debug, Default)]
struct Letters {
    has_any: bool,
    has_upper: bool,
}

impl Letters {
    fn add(&mut self, literal: &Literal) {
        self.has_any = true;
        self.has_upper |= literal.c.is_uppercase();
    }
}

impl Visitor for Letters {
    type Output = Self;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self, Self::Err> {
        Ok(self)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if let Ast::Literal(literal) = ast {
            self.add(literal);
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Literal(literal) => self.add(literal),
            ClassSetItem::Range(range) => {
                self.add(&range.start);
                self.add(&range.end);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spelled_out_letters_count() {
        for (pattern, expected) in [
            ("foo", true),
            ("fOo", false),
            (r"\Wfoo\S", true),
            (r"\pLu", true),
            (r"\p{Lu}", false),
            ("[a-z]", true),
            ("[a-zA]", false),
            ("[A-Z]", false),
            ("(É|b)", false),
            (r"\w+", false),
            ("", false),
            ("(", false),
            ("1", true),
        ] {
            assert_eq!(ignores_case(pattern, 100), expected, "{pattern}");
        }
    }
}
