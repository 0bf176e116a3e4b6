use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn value(text: &str) -> SecretString {
    SecretString::from(text.to_owned())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_is_set_can_be_got_listed_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("below/secrets");
    let store = SecretStore::open_with_key_file(&directory);
    assert_eq!(store.names().unwrap(), Vec::<String>::new());
    assert_eq!(store.key_place().unwrap(), None);
    assert!(matches!(store.get("TOKEN"), Err(StoreError::Missing { .. })));
    assert!(!store.remove("TOKEN").unwrap());
    assert!(!directory.exists(), "looking makes nothing");

    store.set("TOKEN", &value("first-value")).unwrap();
    store.set("OTHER", &value("héllo\n")).unwrap();
    store.set("TOKEN", &value("second-value")).unwrap();
    let again = SecretStore::open(&directory).unwrap();
    assert_eq!(again.names().unwrap(), ["OTHER", "TOKEN"]);
    assert_eq!(again.key_place().unwrap(), Some(KeyPlace::File));
    assert_eq!(again.get("TOKEN").unwrap().expose_secret(), "second-value");
    assert_eq!(again.get("OTHER").unwrap().expose_secret(), "héllo\n");
    assert!(again.remove("TOKEN").unwrap());
    assert!(!again.remove("TOKEN").unwrap());
    assert_eq!(again.names().unwrap(), ["OTHER"]);
}

#[test]
fn nothing_on_disk_holds_a_value_and_nothing_is_open_to_others() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("secrets");
    SecretStore::open_with_key_file(&directory).set("TOKEN", &value("planted-value-1")).unwrap();
    assert_eq!(mode(&directory), 0o700);
    for entry in fs::read_dir(&directory).unwrap().flatten() {
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
        let content = fs::read(entry.path()).unwrap();
        let encoded = STANDARD.encode("planted-value-1");
        for form in ["planted-value-1", encoded.trim_end_matches('=')] {
            assert!(!content.windows(form.len()).any(|part| part == form.as_bytes()), "{entry:?}");
        }
    }
}

#[test]
fn a_sealed_value_opens_only_under_its_own_name_and_key() {
    let root = tempfile::tempdir().unwrap();
    let store = SecretStore::open_with_key_file(root.path());
    store.set("A", &value("value-a")).unwrap();
    store.set("B", &value("value-b")).unwrap();
    let mut book = store.read().unwrap().unwrap();
    let (a, b) = (book.secrets["A"].clone(), book.secrets["B"].clone());
    book.secrets.insert("A".into(), b);
    book.secrets.insert("B".into(), a.replacen(&a[20..21], if &a[20..21] == "x" { "y" } else { "x" }, 1));
    store.write(&book).unwrap();
    for name in ["A", "B"] {
        assert!(matches!(store.get(name), Err(StoreError::Sealed { .. })), "{name}");
    }
    // The same value twice is sealed differently.
    assert_ne!(seal(&key::Key::default(), "A", "v"), seal(&key::Key::default(), "A", "v"));

    fs::write(root.path().join("secrets.key"), "0".repeat(64)).unwrap();
    assert!(matches!(store.get("A"), Err(StoreError::Sealed { .. })));
    fs::remove_file(root.path().join("secrets.key")).unwrap();
    assert!(matches!(store.get("A"), Err(StoreError::Key { place: KeyPlace::File, .. })));
    // A new key would make every other value unreadable.
    assert!(matches!(store.set("C", &value("v")), Err(StoreError::Key { .. })));
}

#[test]
fn files_that_others_can_read_and_files_of_another_shape_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let store = SecretStore::open_with_key_file(root.path());
    store.set("A", &value("v")).unwrap();
    for file in ["secrets.json", "secrets.key"] {
        let path = root.path().join(file);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = store.get("A").unwrap_err();
        assert!(matches!(error, StoreError::Permissions { .. }), "{error}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    for text in ["", "{}", "[]", r#"{"version":2,"key":"file","secrets":{}}"#] {
        fs::write(root.path().join("secrets.json"), text).unwrap();
        assert!(matches!(store.names(), Err(StoreError::Format { .. })), "{text}");
        assert!(store.set("A", &value("v")).is_err(), "a store that can't be read is not replaced");
    }
}

#[test]
fn names_and_values_have_bounds() {
    let root = tempfile::tempdir().unwrap();
    let store = SecretStore::open_with_key_file(root.path());
    for name in ["", "a b", "a/b", "a-b", "é", "a\n", "1a", &"x".repeat(129)] {
        assert!(matches!(store.set(name, &value("v")), Err(StoreError::Name { .. })), "{name:?}");
    }
    for text in ["", &"v".repeat(LONGEST_VALUE + 1)] {
        let error = store.set("A", &value(text)).unwrap_err();
        assert!(matches!(error, StoreError::Value { .. }) && !error.to_string().contains("vvv"));
    }
}

#[test]
fn two_at_once_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let directory = root.path();
            scope.spawn(move || {
                for n in 0..10 {
                    let store = SecretStore::open_with_key_file(directory);
                    store.set(&format!("S{thread}_{n}"), &value("v")).unwrap();
                }
            });
        }
    });
    let store = SecretStore::open_with_key_file(root.path());
    assert_eq!(store.names().unwrap().len(), 40);
    assert!(store.names().unwrap().iter().all(|name| store.get(name).is_ok()));
}

/// Keeps what it is given in a file, as libsecret's program keeps it in a keyring.
fn keyring(directory: &Path) -> PathBuf {
    let program = directory.join("secret-tool");
    let script = "#!/bin/sh\nkept=\"$(dirname \"$0\")/kept\"\ncase \"$1\" in\nstore) cat > \"$kept\";;\nlookup) cat \"$kept\";;\nesac\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    program
}

#[test]
fn a_keyring_keeps_the_key_where_there_is_one() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("store");
    let store =
        |program: &Path| SecretStore { directory: directory.clone(), keyring: key::Keyring::by(program) };
    let program = keyring(root.path());
    store(&program).set("TOKEN", &value("kept-by-keyring")).unwrap();
    assert_eq!(store(&program).key_place().unwrap(), Some(KeyPlace::Keyring));
    assert!(!directory.join("secrets.key").exists());
    assert_eq!(store(&program).get("TOKEN").unwrap().expose_secret(), "kept-by-keyring");
    // A keyring that is gone is an error, not a reason for another key.
    let gone = store(Path::new("/nonexistent"));
    assert!(matches!(gone.get("TOKEN"), Err(StoreError::Key { place: KeyPlace::Keyring, .. })));
    assert!(gone.set("TOKEN", &value("v")).is_err());
    assert_eq!(gone.names().unwrap(), ["TOKEN"]);
}

#[test]
fn a_keyring_that_keeps_nothing_is_not_relied_on() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("store");
    let store = SecretStore { directory, keyring: key::Keyring::by(Path::new("/bin/true")) };
    store.set("TOKEN", &value("kept-by-file")).unwrap();
    assert_eq!(store.key_place().unwrap(), Some(KeyPlace::File));
    assert_eq!(store.get("TOKEN").unwrap().expose_secret(), "kept-by-file");
}
