use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = OsString> {
    prop::collection::vec(any::<u8>(), 0..300).prop_map(OsString::from_vec)
}

fn path() -> impl Strategy<Value = PathBuf> {
    text().prop_map(PathBuf::from)
}

fn links() -> impl Strategy<Value = Links> {
    prop_oneof![Just(Links::Keep), Just(Links::Follow)]
}

fn existing() -> impl Strategy<Value = Existing> {
    prop_oneof![Just(Existing::Refuse), Just(Existing::Replace)]
}

fn reach() -> impl Strategy<Value = Reach> {
    prop_oneof![Just(Reach::One), Just(Reach::Tree)]
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Later), Just(Durability::Now)]
}

fn parents() -> impl Strategy<Value = Parents> {
    prop_oneof![Just(Parents::Exist), Just(Parents::Make)]
}

fn time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}

fn request() -> impl Strategy<Value = FileRequest> {
    prop_oneof![
        any::<u32>().prop_map(|version| FileRequest::Hello { version }),
        (path(), links()).prop_map(|(path, links)| FileRequest::Stat { path, links }),
        path().prop_map(|path| FileRequest::List { path }),
        (path(), links()).prop_map(|(path, links)| FileRequest::OpenRead { path, links }),
        (path(), any::<u32>(), links()).prop_map(|(path, mode, links)| FileRequest::Create {
            path,
            mode,
            links
        }),
        (any::<u32>(), existing(), durability())
            .prop_map(|(draft, existing, durability)| FileRequest::Finish { draft, existing, durability }),
        any::<u32>().prop_map(|draft| FileRequest::Abandon { draft }),
        (path(), any::<u32>(), parents()).prop_map(|(path, mode, parents)| FileRequest::MakeDirectory {
            path,
            mode,
            parents
        }),
        (path(), path(), existing()).prop_map(|(from, to, existing)| FileRequest::Rename {
            from,
            to,
            existing
        }),
        (path(), reach()).prop_map(|(path, reach)| FileRequest::Remove { path, reach }),
        (path(), path()).prop_map(|(target, path)| FileRequest::Symlink { target, path }),
        (path(), any::<u32>()).prop_map(|(path, mode)| FileRequest::SetMode { path, mode }),
        (path(), time()).prop_map(|(path, time)| FileRequest::SetModified { path, time }),
        (path(), any::<u64>()).prop_map(|(path, size)| FileRequest::Truncate { path, size }),
        (path(), reach()).prop_map(|(path, reach)| FileRequest::Watch { path, reach }),
    ]
}

fn kind() -> impl Strategy<Value = FileKind> {
    prop_oneof![
        Just(FileKind::Regular),
        Just(FileKind::Directory),
        Just(FileKind::Symlink),
        Just(FileKind::Fifo),
        Just(FileKind::Socket),
        Just(FileKind::CharacterDevice),
        Just(FileKind::BlockDevice),
        Just(FileKind::Unknown),
    ]
}

fn stat() -> impl Strategy<Value = FileStat> {
    (kind(), 0..0o10000_u32, any::<u64>(), time(), time(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(kind, mode, size, modified, changed, device, inode, links)| FileStat {
            kind,
            mode,
            size,
            modified,
            changed,
            device,
            inode,
            links,
        },
    )
}

fn entry() -> impl Strategy<Value = FileEntry> {
    (text(), stat(), prop::option::of(path())).prop_map(|(name, stat, target)| FileEntry {
        name,
        stat,
        target,
    })
}

fn change() -> impl Strategy<Value = FileChange> {
    prop_oneof![
        Just(FileChange::Created),
        Just(FileChange::Changed),
        Just(FileChange::Written),
        Just(FileChange::Removed),
        Just(FileChange::MovedFrom),
        Just(FileChange::MovedTo),
        Just(FileChange::Metadata),
        Just(FileChange::Overflow),
        Just(FileChange::Unwatched),
    ]
}

fn reply() -> impl Strategy<Value = FileReply> {
    prop_oneof![
        any::<u32>().prop_map(|version| FileReply::Hello { version }),
        Just(FileReply::Done),
        (stat(), prop::option::of(path())).prop_map(|(stat, target)| FileReply::Stat { stat, target }),
        prop::collection::vec(entry(), 0..8).prop_map(FileReply::Entries),
        Just(FileReply::Opened),
        any::<u32>().prop_map(|draft| FileReply::Created { draft }),
        Just(FileReply::Working),
        any::<u32>().prop_map(|errno| FileReply::Failed { errno }),
        kind().prop_map(|kind| FileReply::NotRegular { kind }),
        (change(), path(), any::<bool>(), any::<u32>()).prop_map(|(change, path, directory, cookie)| {
            FileReply::Event(FileEvent { change, path, directory, cookie })
        }),
    ]
}

proptest! {
    #[test]
    fn a_request_survives_the_wire(request in request()) {
        prop_assert_eq!(FileRequest::decode(&request.encode()), Some(request));
    }

    #[test]
    fn a_reply_survives_the_wire(reply in reply()) {
        prop_assert_eq!(FileReply::decode(&reply.encode()), Some(reply));
    }

    #[test]
    fn what_is_decoded_of_rubbish_is_what_would_have_been_sent(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(request) = FileRequest::decode(&bytes) {
            prop_assert_eq!(request.encode(), bytes.clone());
        }
        if let Some(reply) = FileReply::decode(&bytes) {
            prop_assert_eq!(reply.encode(), bytes);
        }
    }

    #[test]
    fn a_message_that_is_cut_or_longer_is_no_message(request in request(), cut in any::<prop::sample::Index>()) {
        let mut bytes = request.encode();
        prop_assert_eq!(FileRequest::decode(&bytes[..cut.index(bytes.len())]), None);
        bytes.push(0);
        prop_assert_eq!(FileRequest::decode(&bytes), None);
    }

    #[test]
    fn a_damaged_reply_does_not_panic(reply in reply(), at in any::<prop::sample::Index>(), value: u8) {
        let mut bytes = reply.encode();
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Some(reply) = FileReply::decode(&bytes) {
            prop_assert_eq!(reply.encode(), bytes);
        }
    }
}
