use ringfence_policy::*;
use ringfence_sandbox::*;
fn main() {
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    let profile: ProfileName = args.remove(0).to_str().unwrap().parse().unwrap();
    let request = Request {
        policy: merge(profile, &[]).unwrap(),
        argv: args,
        directory: None,
        stream: Stream::Inherit,
        trace: std::env::var_os("TRACE").is_some(),
        strict: false,
        state: std::path::PathBuf::from(format!("/tmp/rf-state-{}", rustix::process::getuid().as_raw())),
    };
    let host = Host::look(&request).unwrap();
    let plan = Native.plan(&request, &host).unwrap();
    match Native.run(&request, plan) {
        Ok(outcome) => {
            for d in &outcome.denials {
                eprintln!("denied: {} {} x{}: {}", d.rule, d.what, d.count, d.remedy);
            }
            for n in &outcome.notes {
                eprintln!("note: {n}");
            }
            if let End::NotStarted { .. } = outcome.end {
                eprintln!("{:?}", outcome.end);
            }
            std::process::exit(outcome.exit_code())
        }
        Err(refusal) => {
            eprintln!("refused: {refusal}\n  {}", refusal.fix());
            std::process::exit(125)
        }
    }
}
