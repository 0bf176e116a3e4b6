//! Which package has a module, where their names differ. Reviewed data: an entry names the package that people mean, not
//! one that happens to have the module too.

/// The package of a module, by its full name and what is imported from it.
pub(super) struct Package {
    /// A requirement.
    pub(super) requirement: String,
    /// From the table, or by a rule that holds; else the name is a guess.
    pub(super) known: bool,
}

/// The packages of an import. A family's modules are in packages of their own: `from google.cloud import a, b` is two.
pub(super) fn of(module: &str, names: &[String]) -> Vec<Package> {
    if !FAMILIES.contains(&module) || names.is_empty() {
        return vec![package(module, names)];
    }
    names.iter().map(|name| package(module, std::slice::from_ref(name))).collect()
}

/// Packages of these are named after their modules.
const FAMILIES: &[&str] = &["google.cloud", "azure.mgmt", "azure", "google"];

/// Find it by the longest known part of the name: `google.cloud.storage` before `google.cloud`.
fn package(module: &str, names: &[String]) -> Package {
    let known = |requirement: &str| Package { requirement: requirement.to_owned(), known: true };
    for name in names {
        if let Some(found) = lookup(&format!("{module}.{name}")) {
            return known(found);
        }
    }
    let mut part = module;
    loop {
        if let Some(found) = lookup(part) {
            return known(found);
        }
        for family in &FAMILIES[..3] {
            let inside = |name: &str| name.strip_prefix(*family).is_some_and(|rest| rest.starts_with('.'));
            let full =
                if part == *family { names.first().map(|name| format!("{family}.{name}")) } else { None };
            let full = full.unwrap_or_else(|| part.to_owned());
            if inside(&full) && full.split('.').count() == family.split('.').count() + 1 {
                return known(&full.replace(['.', '_'], "-"));
            }
        }
        match part.rsplit_once('.') {
            Some((before, _)) => part = before,
            None => {
                return Package {
                    requirement: part.to_owned(),
                    known: SAME_NAME.binary_search(&part).is_ok(),
                };
            }
        }
    }
}

/// Does the package of this module bring to old versions what newer ones have?
pub(super) fn backport(top: &str) -> bool {
    lookup(top).is_some_and(|requirement| requirement.contains("; python_version <"))
}

/// Is it a package that people know by the name of its module?
pub(super) fn is_known(top: &str) -> bool {
    let at = TABLE.partition_point(|(module, _)| *module < top);
    SAME_NAME.binary_search(&top).is_ok()
        || TABLE.get(at).is_some_and(|(module, _)| module.split('.').next() == Some(top))
}

/// Is it the normalised name of a package in the tables?
pub(super) fn is_package(name: &str) -> bool {
    let bare = |requirement: &str| requirement.split([';', '[']).next() == Some(name);
    TABLE.iter().any(|(_, requirement)| bare(requirement))
        || SAME_NAME.iter().any(|module| super::requirement::normalised_name(module) == name)
}

fn lookup(module: &str) -> Option<&'static str> {
    TABLE.binary_search_by(|(name, _)| (*name).cmp(module)).ok().map(|at| TABLE[at].1)
}

/// Sorted by module; a test says so.
#[rustfmt::skip]
const TABLE: &[(&str, &str)] = &[
    ("Bio", "biopython"),
    ("Crypto", "pycryptodome"),
    ("Cryptodome", "pycryptodomex"),
    ("Cython", "cython"),
    ("IPython", "ipython"),
    ("Levenshtein", "levenshtein"),
    ("MySQLdb", "mysqlclient"),
    ("OpenGL", "pyopengl"),
    ("OpenSSL", "pyopenssl"),
    ("PIL", "pillow"),
    ("PyPDF2", "pypdf2"),
    ("PyQt5", "pyqt5"),
    ("PyQt6", "pyqt6"),
    ("Xlib", "python-xlib"),
    ("absl", "absl-py"),
    ("aiohttp_socks", "aiohttp-socks"),
    ("airtable", "airtable-python-wrapper"),
    ("apiclient", "google-api-python-client"),
    ("arxiv", "arxiv"),
    ("async_timeout", "async-timeout"),
    ("atlassian", "atlassian-python-api"),
    ("attr", "attrs"),
    ("azure.identity", "azure-identity"),
    ("azure.storage.blob", "azure-storage-blob"),
    ("backports.zoneinfo", "backports-zoneinfo; python_version < \"3.9\""),
    ("barcode", "python-barcode"),
    ("bigquery_storage", "google-cloud-bigquery-storage"),
    ("bitcoin", "python-bitcoinlib"),
    ("bs4", "beautifulsoup4"),
    ("bson", "pymongo"),
    ("cairo", "pycairo"),
    ("cassandra", "cassandra-driver"),
    ("chess", "chess"),
    ("clickhouse_connect", "clickhouse-connect"),
    ("clickhouse_driver", "clickhouse-driver"),
    ("clip", "openai-clip"),
    ("confluent_kafka", "confluent-kafka"),
    ("cpuinfo", "py-cpuinfo"),
    ("cv2", "opencv-python-headless"),
    ("databricks.sdk", "databricks-sdk"),
    ("databricks.sql", "databricks-sql-connector"),
    ("dateparser", "dateparser"),
    ("dateutil", "python-dateutil"),
    ("dbus", "dbus-python"),
    ("decouple", "python-decouple"),
    ("deprecated", "deprecated"),
    ("discord", "discord-py"),
    ("django", "django"),
    ("dns", "dnspython"),
    ("docker", "docker"),
    ("docx", "python-docx"),
    ("docx2pdf", "docx2pdf"),
    ("dotenv", "python-dotenv"),
    ("duckduckgo_search", "duckduckgo-search"),
    ("ebooklib", "ebooklib"),
    ("edge_tts", "edge-tts"),
    ("elasticsearch_dsl", "elasticsearch-dsl"),
    ("exa_py", "exa-py"),
    ("exceptiongroup", "exceptiongroup; python_version < \"3.11\""),
    ("exifread", "exifread"),
    ("faiss", "faiss-cpu"),
    ("fal_client", "fal-client"),
    ("ffmpeg", "ffmpeg-python"),
    ("fitz", "pymupdf"),
    ("flask_cors", "flask-cors"),
    ("flask_sqlalchemy", "flask-sqlalchemy"),
    ("frontmatter", "python-frontmatter"),
    ("gi", "pygobject"),
    ("git", "gitpython"),
    ("github", "pygithub"),
    ("gitlab", "python-gitlab"),
    ("google.api_core", "google-api-core"),
    ("google.auth", "google-auth"),
    ("google.genai", "google-genai"),
    ("google.generativeai", "google-generativeai"),
    ("google.oauth2", "google-auth"),
    ("google.protobuf", "protobuf"),
    ("google_auth_httplib2", "google-auth-httplib2"),
    ("google_auth_oauthlib", "google-auth-oauthlib"),
    ("googleapiclient", "google-api-python-client"),
    ("googlemaps", "googlemaps"),
    ("grpc", "grpcio"),
    ("grpc_tools", "grpcio-tools"),
    ("haystack", "haystack-ai"),
    ("html2text", "html2text"),
    ("httplib2", "httplib2"),
    ("hubspot", "hubspot-api-client"),
    ("huggingface_hub", "huggingface-hub"),
    ("imblearn", "imbalanced-learn"),
    ("importlib_metadata", "importlib-metadata"),
    ("importlib_resources", "importlib-resources"),
    ("influxdb_client", "influxdb-client"),
    ("jira", "jira"),
    ("jose", "python-jose"),
    ("jwt", "pyjwt"),
    ("kafka", "kafka-python"),
    ("keycloak", "python-keycloak"),
    ("kubernetes", "kubernetes"),
    ("langchain_anthropic", "langchain-anthropic"),
    ("langchain_community", "langchain-community"),
    ("langchain_core", "langchain-core"),
    ("langchain_openai", "langchain-openai"),
    ("ldap", "python-ldap"),
    ("llama_cpp", "llama-cpp-python"),
    ("llama_index", "llama-index"),
    ("lxml_html_clean", "lxml-html-clean"),
    ("magic", "python-magic"),
    ("mammoth", "mammoth"),
    ("markdown", "markdown"),
    ("markdown_it", "markdown-it-py"),
    ("markdown_pdf", "markdown-pdf"),
    ("mistralai", "mistralai"),
    ("mpl_toolkits", "matplotlib"),
    ("mutagen", "mutagen"),
    ("mysql.connector", "mysql-connector-python"),
    ("nacl", "pynacl"),
    ("notion_client", "notion-client"),
    ("odf", "odfpy"),
    ("office365", "office365-rest-python-client"),
    ("openpyxl_image_loader", "openpyxl-image-loader"),
    ("opentelemetry", "opentelemetry-api"),
    ("osgeo", "gdal"),
    ("paho", "paho-mqtt"),
    ("pdf2image", "pdf2image"),
    ("pdfminer", "pdfminer-six"),
    ("peft", "peft"),
    ("pinecone", "pinecone"),
    ("pkg_resources", "setuptools"),
    ("playwright_stealth", "playwright-stealth"),
    ("pptx", "python-pptx"),
    ("praw", "praw"),
    ("prometheus_client", "prometheus-client"),
    ("prompt_toolkit", "prompt-toolkit"),
    ("psycopg2", "psycopg2-binary"),
    ("pwn", "pwntools"),
    ("pydantic_settings", "pydantic-settings"),
    ("pydub", "pydub"),
    ("pygments", "pygments"),
    ("pylab", "matplotlib"),
    ("pymysql", "pymysql"),
    ("pynput", "pynput"),
    ("pypandoc", "pypandoc"),
    ("pypdfium2", "pypdfium2"),
    ("pysrt", "pysrt"),
    ("pythoncom", "pywin32; sys_platform == \"win32\""),
    ("pytorch_lightning", "pytorch-lightning"),
    ("pywintypes", "pywin32; sys_platform == \"win32\""),
    ("pyzbar", "pyzbar"),
    ("qdrant_client", "qdrant-client"),
    ("rapidocr_onnxruntime", "rapidocr-onnxruntime"),
    ("readability", "readability-lxml"),
    ("rest_framework", "djangorestframework"),
    ("ruamel", "ruamel-yaml"),
    ("ruamel.yaml", "ruamel-yaml"),
    ("scrapy", "scrapy"),
    ("sentence_transformers", "sentence-transformers"),
    ("sentry_sdk", "sentry-sdk"),
    ("serial", "pyserial"),
    ("sh", "sh"),
    ("shapefile", "pyshp"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("skopt", "scikit-optimize"),
    ("slack_bolt", "slack-bolt"),
    ("slack_sdk", "slack-sdk"),
    ("slugify", "python-slugify"),
    ("smbus", "smbus2"),
    ("snowflake.connector", "snowflake-connector-python"),
    ("socketio", "python-socketio"),
    ("socks", "pysocks"),
    ("speech_recognition", "speechrecognition"),
    ("sqlalchemy_utils", "sqlalchemy-utils"),
    ("sseclient", "sseclient-py"),
    ("stdnum", "python-stdnum"),
    ("surprise", "scikit-surprise"),
    ("talib", "ta-lib"),
    ("tavily", "tavily-python"),
    ("telebot", "pytelegrambotapi"),
    ("telegram", "python-telegram-bot"),
    ("tensorflow_hub", "tensorflow-hub"),
    ("thefuzz", "thefuzz"),
    ("tiktoken", "tiktoken"),
    ("tlz", "toolz"),
    ("tomli", "tomli; python_version < \"3.11\""),
    ("tree_sitter", "tree-sitter"),
    ("twitter", "python-twitter"),
    ("typing_extensions", "typing-extensions"),
    ("unstructured_client", "unstructured-client"),
    ("usb", "pyusb"),
    ("vertexai", "google-cloud-aiplatform"),
    ("vlc", "python-vlc"),
    ("volcenginesdkarkruntime", "volcengine-python-sdk[ark]"),
    ("wand", "wand"),
    ("websocket", "websocket-client"),
    ("whisper", "openai-whisper"),
    ("win32api", "pywin32; sys_platform == \"win32\""),
    ("win32com", "pywin32; sys_platform == \"win32\""),
    ("win32con", "pywin32; sys_platform == \"win32\""),
    ("win32gui", "pywin32; sys_platform == \"win32\""),
    ("wx", "wxpython"),
    ("xlsxwriter", "xlsxwriter"),
    ("yaml", "pyyaml"),
    ("youtube_transcript_api", "youtube-transcript-api"),
    ("yt_dlp", "yt-dlp"),
    ("zmq", "pyzmq"),
];

/// Modules of packages of the same name that skills often use: no guess. Sorted.
#[rustfmt::skip]
const SAME_NAME: &[&str] = &[
    "PyInstaller", "aiofiles", "aiohttp", "akshare", "altair", "anthropic", "anyio", "boto3", "botocore", "certifi",
    "chardet", "charset_normalizer", "chromadb", "click", "cohere", "colorama", "cryptography", "dash", "dask",
    "defusedxml", "duckdb", "elasticsearch", "fastapi", "fastmcp", "feedparser", "filelock", "fire", "flask",
    "fontTools", "fsspec", "geopandas", "gradio", "groq", "gspread", "h5py", "html5lib", "httpx", "idna", "imageio",
    "instructor", "jinja2", "joblib", "jsonpath_ng", "jsonschema", "keras", "keyring", "langchain", "langdetect",
    "langgraph", "librosa", "lightgbm", "litellm", "loguru", "lxml", "markdownify", "markitdown", "marshmallow",
    "matplotlib", "mcp", "mistune", "moviepy", "mplfinance", "msal", "msgpack", "networkx", "nltk", "notebook",
    "numba", "numpy", "oauthlib", "ollama", "onnxruntime", "openai", "openpyxl", "orjson",
    "packaging", "pandas", "paramiko", "pathspec", "patsy", "pdfkit", "pdfplumber", "peewee", "pendulum", "pexpect",
    "pikepdf", "pip", "platformdirs", "playwright", "plotly", "polars", "psutil", "psycopg", "pyarrow", "pyautogui",
    "pydantic", "pydeck", "pymongo", "pyodbc", "pyparsing", "pypdf", "pyperclip", "pytesseract", "pytest", "pytz",
    "qrcode", "rapidfuzz", "rasterio", "rdkit", "redis", "regex", "replicate", "reportlab", "requests",
    "requests_oauthlib", "rich", "scipy", "seaborn", "selenium", "setuptools", "shap", "shapely", "simplejson", "six",
    "soundfile", "spacy", "sqlalchemy", "sqlmodel", "sqlparse", "starlette", "statsmodels", "streamlit", "stripe",
    "svgwrite", "sympy", "tabulate", "tenacity", "tensorflow", "textual", "toml", "tomlkit", "toolz", "torch",
    "torchaudio", "torchvision", "tqdm", "trafilatura", "transformers", "tushare", "tweepy", "twilio", "typer",
    "tzlocal", "ujson", "unidecode", "urllib3", "uvicorn", "uvloop", "validators", "vobject", "watchdog",
    "weasyprint", "websockets", "werkzeug", "wheel", "wikipedia", "wordcloud", "xgboost", "xlrd", "xlwt", "xmltodict",
    "yarl", "yfinance", "zstandard",
];

#[cfg(test)]
mod tests {
    use super::super::requirement;
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_entry_a_requirement() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{pair:?}");
        }
        assert!(TABLE.len() >= 120);
        assert!(SAME_NAME.is_sorted());
        for (module, text) in TABLE {
            assert_eq!(requirement::parse(text).unwrap().text(), *text, "{module}");
        }
    }

    #[test]
    fn packages_by_module() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (module, from, package_name, known) in [
            ("yaml", &[][..], "pyyaml", true),
            ("PIL.Image", &[], "pillow", true),
            ("PIL", &["Image"], "pillow", true),
            ("google.cloud", &["storage"], "google-cloud-storage", true),
            ("google.cloud.bigquery_datatransfer", &[], "google-cloud-bigquery-datatransfer", true),
            ("google", &["genai"], "google-genai", true),
            ("google.genai.types", &[], "google-genai", true),
            ("google.oauth2.credentials", &["Credentials"], "google-auth", true),
            ("azure.identity", &["DefaultAzureCredential"], "azure-identity", true),
            ("azure.storage.blob", &["BlobServiceClient"], "azure-storage-blob", true),
            ("mpl_toolkits.mplot3d", &["Axes3D"], "matplotlib", true),
            ("ruamel.yaml", &["YAML"], "ruamel-yaml", true),
            ("requests.adapters", &["HTTPAdapter"], "requests", true),
            ("tomli", &[], "tomli; python_version < \"3.11\"", true),
            ("some_thing", &[], "some_thing", false),
        ] {
            let found = package(module, &names(from));
            assert_eq!((found.requirement.as_str(), found.known), (package_name, known), "{module}");
        }
        assert!(backport("tomli") && !backport("yaml"));
    }
}
