//! Hostile input to the command line itself: NUL bytes, a megabyte of arguments, names that look like flags.

use ringfence_testing::{Scene, Stage, Test};

use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    vec![nul_in_argument(), nul_in_policy(), newline_in_variable(), megabyte_of_arguments()]
}

fn probe() -> String {
    Stage::get().probe.to_string_lossy().into_owned()
}

/// The kernel's interface can't carry a NUL in an argument: the caller's own start fails, never a cut-off word.
fn nul_in_argument() -> Row {
    let refused = |program: &std::path::Path| {
        let error = std::process::Command::new(program).arg("a\0b").spawn().err();
        match error {
            Some(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    drill(
        "nul-in-argument",
        "passes an argument with a NUL",
        "the kernel refuses it for every program, whatever the verb",
        move |_| refused(&Stage::get().ringfence),
        move |_| match std::process::Command::new(probe()).arg("read").arg("/dev/null").arg("a").output() {
            Ok(output) if output.status.code() == Some(1) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
}

/// JSON can carry a NUL: in a path or a variable it is an error that says so, and nothing runs.
fn nul_in_policy() -> Row {
    let run = |scene: &Scene, policy: &str| {
        scene.write("policy.json", policy);
        let test = Test::in_scene(scene).profile("restrictive").with_probe();
        test.args(["--policy".into(), scene.path("policy.json")]).run(["echo", "ran"])
    };
    drill(
        "nul-in-policy",
        "names a path with a NUL in a policy file",
        "a session's policy is read by the same function",
        move |identity| {
            let scene = Scene::new(identity);
            let read = format!(r#"{{"filesystem": {{"read": ["{}\u0000/x"]}}}}"#, scene.outside().display());
            let set = r#"{"environment": {"set": {"A": "b\u0000c"}}}"#;
            for policy in [read.as_str(), set] {
                let outcome = run(&scene, policy);
                let ran = outcome.output.contains("ran");
                if outcome.exit != 125
                    || ran
                    || outcome.errors.contains("panicked")
                    || outcome.errors.is_empty()
                {
                    return Err(format!("{policy}\n{}", outcome.describe()));
                }
            }
            Ok(())
        },
        move |identity| {
            let scene = Scene::new(identity);
            let policy = format!(r#"{{"filesystem": {{"read": ["{}"]}}}}"#, scene.outside().display());
            let outcome = run(&scene, &policy);
            if outcome.exit == 0 && outcome.output.contains("ran") { Ok(()) } else { Err(outcome.describe()) }
        },
    )
}

/// A value with a newline stays one variable.
fn newline_in_variable() -> Row {
    let run = |scene: &Scene, value: String| {
        let test = Test::in_scene(scene).profile("restrictive").args(["--env".to_owned(), value]);
        test.run(["bash", "-c", "env | grep -c '^INJECTED=' || printf %s \"$A\" | od -An -c"])
    };
    drill(
        "newline-in-variable",
        "makes a second variable by a newline in the first",
        "tests/session/words.rs",
        move |identity| {
            let outcome = run(&Scene::new(identity), "A=b\nXINJECTED=c".into());
            if outcome.exit == 0 && outcome.output.contains("\\n") { Ok(()) } else { Err(outcome.describe()) }
        },
        move |identity| {
            let outcome = run(&Scene::new(identity), "INJECTED=c".into());
            if outcome.output.trim() == "1" { Ok(()) } else { Err(outcome.describe()) }
        },
    )
}

/// A megabyte of arguments arrives as it was given.
fn megabyte_of_arguments() -> Row {
    const PIECES: usize = 16;
    const PIECE: usize = 64 << 10;
    let line = || {
        let mut line = vec![probe(), "count-args".to_owned(), (PIECES * PIECE).to_string()];
        line.extend(std::iter::repeat_n("x".repeat(PIECE), PIECES));
        line
    };
    drill(
        "megabyte-of-arguments",
        "passes a megabyte of arguments, of which none may be lost",
        "tests/session/words.rs",
        move |identity| {
            let outcome =
                Test::in_scene(&Scene::new(identity)).profile("restrictive").with_probe().run(line());
            if outcome.exit == 0 && outcome.output.contains("1048576 bytes") {
                return Ok(());
            }
            Err(format!("exit {}: {:.300}{:.300}", outcome.exit, outcome.output, outcome.errors))
        },
        move |identity| {
            let text = crate::stdio::on_host(&Scene::new(identity), &line(), |_| {});
            if text.contains("1048576 bytes") { Ok(()) } else { Err(format!("{text:.300}")) }
        },
    )
}
