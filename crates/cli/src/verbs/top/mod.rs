//! `ringfence top`: a live table of sandboxes, commands, denials and rates, of a server or of this user's sessions.

mod look;
mod screen;

use std::io::IsTerminal;

use ringfence_server::Remote;
use ringfence_service::{ErrorCode, Places, ServiceError};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::TopArgs;
use crate::failure::Failure;
use crate::output;
use look::{Look, Rates};
use screen::Screen;

/// What is watched.
enum Watched {
    Server(Remote),
    Here(Box<Places>),
}

pub(crate) fn top(args: TopArgs) -> Result<i32, Failure> {
    let json = args.json;
    carry_out(&args).map_err(|failure| failure.with_json(json))
}

fn carry_out(args: &TopArgs) -> Result<i32, Failure> {
    let watched = match &args.url {
        Some(url) => Watched::Server(Remote::new(url, &key(args)?)?),
        None => Watched::Here(Box::new(Places::from_env()?)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}"), "try again"))?;
    runtime.block_on(watch(args, &watched))
}

/// Never an argument: those are everybody's to see.
fn key(args: &TopArgs) -> Result<String, Failure> {
    let text = match &args.key_file {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display()), "name a file with a key")),
        None => std::env::var("RINGFENCE_KEY").map_err(|_| {
            Failure::new("there is no key for the server", "give --key-file FILE, or set RINGFENCE_KEY")
        }),
    }?;
    Ok(text.trim().to_owned())
}

async fn look(watched: &Watched) -> Result<Look, ServiceError> {
    match watched {
        Watched::Server(remote) => Look::at_server(remote).await,
        Watched::Here(places) => Look::here(places),
    }
}

async fn watch(args: &TopArgs, watched: &Watched) -> Result<i32, Failure> {
    let mut last = look(watched).await?;
    if args.once {
        if args.json {
            output::json(&last);
        } else {
            output::raw(screen::drawn(&last, None).as_bytes());
        }
        return Ok(0);
    }
    let ended = |kind| {
        signal(kind).map_err(|error| ServiceError::new(ErrorCode::State, error.to_string(), "try again"))
    };
    let mut interrupt = ended(SignalKind::interrupt())?;
    let mut terminate = ended(SignalKind::terminate())?;
    let mut hangup = ended(SignalKind::hangup())?;
    let mut resized = ended(SignalKind::window_change())?;
    // Put back as it was when this is dropped, on every way out.
    let mut screen = (!args.json && std::io::stdout().is_terminal()).then(Screen::take);
    let mut rates: Option<Rates> = None;
    let mut again = tokio::time::interval(args.every.duration().max(std::time::Duration::from_millis(100)));
    again.tick().await;
    loop {
        match &mut screen {
            Some(screen) => screen.show(&screen::drawn(&last, rates.as_ref())),
            None if args.json => output::json(&last),
            None => output::raw(screen::drawn(&last, rates.as_ref()).as_bytes()),
        }
        tokio::select! {
            _ = again.tick() => {}
            _ = resized.recv() => continue,
            _ = interrupt.recv() => return Ok(0),
            _ = terminate.recv() => return Ok(0),
            _ = hangup.recv() => return Ok(0),
            () = Screen::quit(screen.as_mut()) => return Ok(0),
        }
        let next = look(watched).await?;
        rates = Some(Rates::between(&last, &next));
        last = next;
    }
}
