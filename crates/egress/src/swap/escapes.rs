//! How writers of JSON and HTML escape what they need not, or write in their own way: a value that comes back through
//! one of them is still that value.

/// The case of hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hex {
    Upper,
    Lower,
}

impl Hex {
    pub(super) const BOTH: [Hex; 2] = [Hex::Upper, Hex::Lower];

    pub(super) fn write(self, number: u32, width: usize) -> String {
        match self {
            Hex::Upper => format!("{number:0width$X}"),
            Hex::Lower => format!("{number:0width$x}"),
        }
    }
}

/// What is written as `\u00XX` in JSON that is safe within HTML: none; Go; Ruby on Rails and Gson, which also has `=`;
/// PHP with its flags; .NET, whose quotes and backquotes are written so as well.
const IN_JSON: [&str; 6] = ["", "&<>", "&<>'", "&<>'=", "&<>'\"", "&<>'\"+`"];

/// Every way in which the inside of a JSON string may be written.
pub(super) fn in_json(value: &str) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for set in IN_JSON {
        for special in Hex::BOTH {
            // As it is, and as ASCII only. PHP writes the two in different cases.
            for wide in [None, Some(Hex::Upper), Some(Hex::Lower)] {
                forms.push(json(value, set, special, wide).into_bytes());
            }
        }
    }
    forms
}

fn json(value: &str, set: &str, special: Hex, wide: Option<Hex>) -> String {
    let mut out = String::with_capacity(value.len() * 2);
    for c in value.chars() {
        match (c, wide) {
            _ if set.contains(c) => out.extend(["\\u", &special.write(c.into(), 4)]),
            ('"' | '\\', _) => out.extend(['\\', c]),
            (c, Some(hex)) if !c.is_ascii() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.extend(["\\u", &hex.write((*unit).into(), 4)]);
                }
            }
            (c, _) => out.push(c),
        }
    }
    out
}

/// By which characters have an entity, and which one. A character that is in none of them has none.
const IN_HTML: [&[(char, &str)]; 10] = [
    // The text of an element.
    &[],
    // Python, Django.
    &[('"', "&quot;"), ('\'', "&#x27;")],
    &[('"', "&quot;")],
    // PHP.
    &[('"', "&quot;"), ('\'', "&#039;")],
    // XML.
    &[('"', "&quot;"), ('\'', "&apos;")],
    // JavaScript's libraries.
    &[('"', "&quot;"), ('\'', "&#39;")],
    &[('"', "&quot;"), ('\'', "&#39;"), ('/', "&#x2F;"), ('`', "&#x60;"), ('=', "&#x3D;")],
    &[('"', "&quot;"), ('\'', "&#x27;"), ('`', "&#x60;"), ('=', "&#x3D;")],
    // Go, Jinja.
    &[('"', "&#34;"), ('\'', "&#39;")],
    &[('"', "&#34;"), ('\'', "&#39;"), ('+', "&#43;")],
];
const ALWAYS: [(char, &str); 3] = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;")];

/// Every way in which a text of HTML or XML may be written.
pub(super) fn in_html(value: &str) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for table in IN_HTML {
        let named = |c: char| table.iter().chain(&ALWAYS).find(|(from, _)| *from == c).map(|(_, to)| *to);
        for wide in [None, Some(None), Some(Some(Hex::Upper)), Some(Some(Hex::Lower))] {
            let entity = |c: char| match (named(c), wide) {
                (Some(entity), _) => entity.to_owned(),
                (None, Some(hex)) if !c.is_ascii() => numbered(c, hex),
                (None, _) => c.to_string(),
            };
            forms.push(value.chars().map(entity).collect::<String>().into_bytes());
        }
    }
    // All that is no letter and no digit, by its number.
    for hex in [None, Some(Hex::Upper), Some(Hex::Lower)] {
        let entity = |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { numbered(c, hex) };
        forms.push(value.chars().map(entity).collect::<String>().into_bytes());
    }
    forms
}

fn numbered(c: char, hex: Option<Hex>) -> String {
    let number = u32::from(c);
    match hex {
        None => format!("&#{number};"),
        Some(hex) => format!("&#x{};", hex.write(number, 1)),
    }
}

/// As a dump of its bytes.
pub(super) fn in_hex(value: &str, hex: Hex) -> Vec<u8> {
    value.bytes().flat_map(|byte| hex.write(byte.into(), 2).into_bytes()).collect()
}
