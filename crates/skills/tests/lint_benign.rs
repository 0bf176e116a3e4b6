//! Honest skills, written as people write them: nothing in them is a finding of severity high.

mod lint_support;

use lint_support::Skill;
use ringfence_skills::Severity;

fn honest() -> Vec<(&'static str, Skill)> {
    vec![
        (
            "pdf",
            Skill::new()
                .manifest(
                    "# PDF forms\n\nUse this skill when the user wants to fill in a PDF form.\n\n## Steps\n\n1. Run `python scripts/fields.py input.pdf`.\n2. Ask the user for missing values.\n3. See [the reference](references/forms.md).\n\nIgnore fields that are read-only. Do not overwrite the previous file.",
                )
                .file("references/forms.md", "# Forms\n\nBack to [the skill](../SKILL.md). A password-protected PDF needs `qpdf --decrypt`.\n")
                .file("scripts/fields.py", "#!/usr/bin/env python3\n# /// script\n# dependencies = [\"pypdf==5.1.0\"]\n# ///\nimport sys\nfrom pypdf import PdfReader\n\n\ndef main(path: str) -> None:\n    reader = PdfReader(path)\n    for name, field in (reader.get_fields() or {}).items():\n        print(f\"{name}: {field.get('/V', '')!r:>20}\")\n\n\nif __name__ == \"__main__\":\n    main(sys.argv[1])\n"),
        ),
        (
            "weather",
            Skill::new()
                .manifest("# Weather\n\nSet `WEATHER_API_KEY` in the environment, then:\n\n```bash\ncurl -s \"https://api.weather.example/v1?q=Oslo&key=$WEATHER_API_KEY\" | jq .current\n```\n\nAnswer in the user's language.")
                .file("scripts/weather.py", "import json\nimport os\nimport urllib.request\n\nKEY = os.environ[\"WEATHER_API_KEY\"]\nwith urllib.request.urlopen(f\"https://api.weather.example/v1?key={KEY}\") as answer:\n    print(json.load(answer)[\"temp\"])\n"),
        ),
        (
            "deploy",
            Skill::new()
                .manifest("# Deploy\n\n1. `git push origin main`\n2. `ssh deploy@app.example 'systemctl restart app'`\n3. `kubectl rollout status deploy/app`\n\nNever use `--no-verify`. Roll back with `helm rollback`.")
                .file("scripts/deploy.sh", "#!/usr/bin/env bash\nset -euo pipefail\ntmp=$(mktemp -d)\ntrap 'rm -rf \"$tmp\"' EXIT\ntar -czf \"$tmp/app.tgz\" dist/\nscp \"$tmp/app.tgz\" deploy@app.example:/srv/app/\nfor host in a b; do\n  ssh \"deploy@$host\" 'sudo systemctl restart app'\ndone\n"),
        ),
        (
            "slack",
            Skill::new()
                .manifest("# Post to Slack\n\nThe webhook address is in `SLACK_WEBHOOK_URL` (it looks like `https://hooks.slack.com/services/T000/B000/XXXX`).")
                .file("post.py", "import os\nimport sys\n\nimport requests\n\nrequests.post(os.environ[\"SLACK_WEBHOOK_URL\"], json={\"text\": sys.argv[1]}, timeout=10).raise_for_status()\n"),
        ),
        (
            "frontend",
            Skill::new()
                .manifest("# Components\n\n<!-- prettier-ignore -->\n| a | b |\n|---|---|\n\nUse semantic HTML. Hidden panels: `<div hidden>Loading</div>`.\n\n```html\n<p style=\"color: white\">Welcome</p>\n```")
                .file("assets/page.html", "<!doctype html><!-- header --><script>document.querySelector('#x').style.display = 'none'</script>")
                .file("package.json", "{\"name\": \"x\", \"scripts\": {\"build\": \"vite build\", \"test\": \"vitest\"}, \"dependencies\": {\"react\": \"19.0.0\"}}")
                .file("src/app.tsx", "export const App = () => <p>{`it's ${1 + 1}`}</p>;\n"),
        ),
        (
            "database",
            Skill::new()
                .manifest("# Migrations\n\nConnect with `postgresql://user:password@localhost:5432/app`. Ask the user before you drop a table.\n\n> Always make a backup: `pg_dump app > backup.sql`.")
                .file("scripts/migrate.sh", "#!/bin/sh\nset -eu\ncase \"${1:-up}\" in\n  up) psql \"$DATABASE_URL\" -f up.sql ;;\n  down) psql \"$DATABASE_URL\" -f down.sql ;;\n  *) echo \"usage: $0 up|down\" >&2; exit 2 ;;\nesac\n"),
        ),
        (
            "writing",
            Skill::new()
                .manifest("# Style guide\n\nWrite for the reader 👩‍💻. Forget everything that does not help. Don't tell the reader what they know; show it ✔️.\n\nWenn der Text deutsch ist, antworte auf Deutsch. متن فارسی می‌تواند نیم‌فاصله داشته باشد.")
                .file("examples/letter.txt", "Dear Ms Smith,\n\nplease follow the instructions in the attached form.\n"),
        ),
        (
            "ssh",
            Skill::new()
                .manifest("# SSH keys\n\nMake a key with `ssh-keygen -t ed25519`, then copy `~/.ssh/id_ed25519.pub` to the server with `ssh-copy-id`. The private key `~/.ssh/id_ed25519` stays where it is.\n\nTo see whether the server answers: `nc -z host 22`."),
        ),
        (
            "data",
            Skill::new()
                .manifest("# Charts\n\n```bash\npip install pandas==2.2.3 matplotlib==3.9.2\npython scripts/chart.py data.csv --out chart.png\n```")
                .file("requirements.txt", "pandas==2.2.3\nmatplotlib==3.9.2\n")
                .file("scripts/chart.py", "import argparse\nimport pickle\nfrom pathlib import Path\n\nimport matplotlib.pyplot as plt\nimport pandas as pd\n\nCACHE = Path.home() / \".cache\" / \"chart.pkl\"\n\n\ndef load(path):\n    if CACHE.exists():\n        return pickle.loads(CACHE.read_bytes())\n    return pd.read_csv(path).eval(\"c = a + b\")\n\n\ndef main():\n    parser = argparse.ArgumentParser()\n    parser.add_argument(\"csv\")\n    parser.add_argument(\"--out\", default=\"chart.png\")\n    args = parser.parse_args()\n    load(args.csv).plot()\n    plt.savefig(args.out)\n\n\nmain()\n")
                .file("assets/logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\0IEND\xaeB`\x82"),
        ),
        (
            "creator",
            Skill::new()
                .manifest("# Make a skill\n\nAsk where it should go, then run `python scripts/new.py NAME --to PATH`. Write a SKILL.md with a name and a description. Keep it below 500 lines. Tell the user what you made.")
                .file("scripts/new.py", "import sys\nfrom pathlib import Path\n\nname, target = sys.argv[1], Path(sys.argv[2])\nfolder = target / name\nfolder.mkdir(parents=True)\n(folder / \"SKILL.md\").write_text(f\"---\\nname: {name}\\ndescription: TODO\\n---\\n\")\n")
                .file("evals/cases.json", "[{\"prompt\": \"make a skill for tea\", \"expect\": [\"SKILL.md\"]}]"),
        ),
        (
            "docker",
            Skill::new()
                .manifest("# Containers\n\nBuild with `docker build -t app .`; the service answers at http://127.0.0.1:8080/health and http://192.168.0.10.\n\nInstall Docker as https://docs.docker.com/engine/install describes. Clean up with `rm -rf build/ dist/`.")
                .file("Dockerfile", "FROM python:3.13-slim\nRUN apt-get update && apt-get install -y --no-install-recommends curl && rm -rf /var/lib/apt/lists/*\nCOPY . /app\nRUN chmod +x /app/run.sh\n")
                .file("compose.yaml", "services:\n  app:\n    build: .\n    environment:\n      - TOKEN=${TOKEN}\n"),
        ),
    ]
}

#[test]
fn honest_skills_have_no_high_finding() {
    let wrong: Vec<String> = honest()
        .iter()
        .flat_map(|(name, skill)| skill.lint().into_iter().map(move |finding| (name, finding)))
        .filter(|(_, finding)| finding.severity >= Severity::High)
        .map(|(name, finding)| format!("{name}: {finding}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn honest_skills_have_few_findings_at_all() {
    let all: Vec<String> = honest()
        .iter()
        .flat_map(|(name, skill)| skill.lint().into_iter().map(move |finding| format!("{name}: {finding}")))
        .collect();
    assert!(all.len() <= 5, "{all:#?}");
}
