//! Reading JSON settings: comments are allowed where the tools allow them, and a value of another type than expected is
//! an error that names the setting.

use serde_json::{Map, Value};

use super::ImportError;

pub(super) fn object(text: &str) -> Result<Map<String, Value>, ImportError> {
    match serde_json::from_str(&without_comments(text)) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(ImportError::Unreadable("they are not a JSON object".into())),
        Err(error) => Err(ImportError::Unreadable(error.to_string())),
    }
}

pub(super) fn section<'a>(value: &'a Value, setting: &str) -> Result<&'a Map<String, Value>, ImportError> {
    value.as_object().ok_or_else(|| wrong(setting, "it is not an object"))
}

pub(super) fn texts(value: &Value, setting: &str) -> Result<Vec<String>, ImportError> {
    let list = value.as_array().ok_or_else(|| wrong(setting, "it is not a list"))?;
    list.iter()
        .map(|item| {
            item.as_str().map(str::to_owned).ok_or_else(|| wrong(setting, "it holds more than texts"))
        })
        .collect()
}

pub(super) fn boolean(value: &Value, setting: &str) -> Result<bool, ImportError> {
    value.as_bool().ok_or_else(|| wrong(setting, "it is neither true nor false"))
}

pub(super) fn wrong(setting: &str, why: &str) -> ImportError {
    ImportError::BadValue { setting: setting.to_owned(), why: why.to_owned() }
}

/// `//` and `/* */` outside of strings become spaces.
pub(super) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let (mut in_string, mut escaped) = (false, false);
    while let Some(letter) = rest.next() {
        if in_string {
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            out.push(letter);
        } else if letter == '/' && rest.peek() == Some(&'/') {
            while rest.next_if(|letter| *letter != '\n').is_some() {}
        } else if letter == '/' && rest.peek() == Some(&'*') {
            rest.next();
            let mut last = ' ';
            for letter in rest.by_ref() {
                if letter == '\n' {
                    out.push('\n');
                }
                if last == '*' && letter == '/' {
                    break;
                }
                last = letter;
            }
            out.push(' ');
        } else {
            in_string = letter == '"';
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_strings_stay() {
        let text = "{ // a \"b\"\n \"x\": \"http://y /* z */ \\\" // w\", /* \"c\": 1, */ \"d\": 2 }";
        let object = object(text).unwrap();
        assert_eq!(object["x"], "http://y /* z */ \" // w");
        assert_eq!(object.len(), 2);
        assert!(super::object("[1]").is_err());
        assert!(super::object("{\"a\": /* never closed").is_err());
    }
}
