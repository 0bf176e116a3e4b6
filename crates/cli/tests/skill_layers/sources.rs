//! Packages come from where the user's own client would get them, and from nowhere else: real npm and pip. The default
//! registry always has a package of the same name, as an attacker would publish it.

use ringfence_testing::Test;

use crate::registry::{Registry, each, has, node_skill, python_skill, run};

#[test]
fn a_scoped_package_is_asked_of_its_scopes_registry_only() {
    if !has("npm", &["--version"]) {
        return;
    }
    each(|scene| {
        let everyones = Registry::new().npm("@corp/tool", "an attacker");
        let corp = Registry::new().npm("@corp/tool", "the company");
        node_skill(scene, "@corp/tool");
        let npmrc = format!("registry={}/\n@corp:registry={}/\n", everyones.url, corp.url);
        scene.write("home/.npmrc", &npmrc);
        // What a project says is for the project: it neither takes the scope away nor moves it.
        scene.write("ws/.npmrc", &format!("@corp:registry={}/\nregistry={0}/\n", everyones.url));
        run(scene, &scene.workspace()).code(0).stdout("the company\n");
        let kept = Test::in_scene(scene).verb(["skill", "layers", "ls", "--json"]).call();
        kept.stdout_contains(&corp.url);

        // Another registry is another layer, and one that lacks the package is an error.
        scene.write(
            "home/.npmrc",
            &format!("registry={}/\n@corp:registry={}/\n", everyones.url, Registry::new().url),
        );
        run(scene, &scene.workspace()).code(125).stderr_contains("could not be installed");
        scene.write("home/.npmrc", &npmrc);
        run(scene, &scene.workspace()).code(0).stdout("the company\n");
    });
}

/// Through a shell that drops variables whose names are none to it, as dash does.
#[test]
fn a_scope_keeps_its_registry_in_a_plain_run() {
    if !has("npm", &["--version"]) {
        return;
    }
    each(|scene| {
        let everyones = Registry::new().npm("@corp/tool", "an attacker");
        let corp = Registry::new().npm("@corp/tool", "the company");
        scene.write("ws/package.json", "{}");
        scene.write("home/.npmrc", &format!("registry={}/\n@corp:registry={}/\n", everyones.url, corp.url));
        let script = "npm install --no-audit --no-fund --cache ./cache @corp/tool >&2 && \
                      node -p \"require('@corp/tool')\"";
        for profile in ["restrictive", "moderate", "permissive"] {
            let test = Test::in_scene(scene).args(["--profile", profile, "--allow-registry", "npm"]);
            test.run(["sh", "-c", script]).code(0).stdout("the company\n");
            // There are none where the workspace is private.
            for made in ["ws/node_modules", "ws/cache"] {
                let _ = std::fs::remove_dir_all(scene.path(made));
            }
        }
    });
}

#[test]
fn a_configuration_that_a_sandbox_may_have_written_is_not_left_out_in_silence() {
    if !has("npm", &["--version"]) {
        return;
    }
    each(|scene| {
        let everyones = Registry::new().npm("@corp/tool", "an attacker");
        node_skill(scene, "@corp/tool");
        scene.write("home/.npmrc", &format!("@corp:registry={}/\n", Registry::new().url));
        let test = Test::in_scene(scene).cwd(scene.home()).env("npm_config_registry", &everyones.url);
        let outcome = test.verb(["skill", "run"]).args([scene.path("skill")]).call();
        outcome.refused(".npmrc").stderr_contains("another directory");
    });
}

#[test]
fn every_index_that_pip_is_configured_with_and_no_other() {
    if !has("/usr/bin/python3", &["-I", "-m", "pip", "--version"]) {
        return;
    }
    each(|scene| {
        let (main, extra) = (Registry::new(), Registry::new().pip("corptool", "the company"));
        python_skill(scene, "corptool");
        let conf =
            format!("[global]\nindex-url = {}/simple\nextra-index-url = {}/simple\n", main.url, extra.url);
        scene.write("home/.config/pip/pip.conf", &conf);
        run(scene, &scene.workspace()).code(0).stdout("the company\n");
        for profile in ["restrictive", "permissive"] {
            let test = Test::in_scene(scene).verb(["skill", "run"]).args(["--profile", profile]);
            test.args([scene.path("skill")]).call().code(0).stdout("the company\n");
        }

        // The same requirement of another index is another layer.
        let other = Registry::new().pip("corptool", "somebody else");
        scene.write("home/.config/pip/pip.conf", &format!("[global]\nindex-url = {}/simple\n", other.url));
        run(scene, &scene.workspace()).code(0).stdout("somebody else\n");
    });
}
