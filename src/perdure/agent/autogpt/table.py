"""Every setting of AutoGPT, and what it does here: the one table from which files are read and the page is rendered.

Rows are of AutoGPT's public settings, versions 0.4 to 0.6 and the branch `classic`. A row that is obeyed names the
function that reads it; one that is ignored says why. Called by the readers of this package and by `tests.docs`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from perdure.agent.autogpt import readings as read
from perdure.agent.autogpt.readings import Reading


class Row(msgspec.Struct, frozen=True):
    """One setting."""

    name: str
    meaning: str  # what it does here, or why it does nothing
    read: Reading | None = None  # its value as fields of AgentSettings
    variable: str = ""  # its value is handed on under this name
    part: str = ""  # what else it is read for: "goals", "file", "history"
    is_common: bool = False  # files of other programs have it too

    @property
    def verdict(self) -> Literal["obeyed", "handed on", "ignored"]:
        """What becomes of it."""
        if self.read or self.part:
            return "obeyed"
        return "handed on" if self.variable else "ignored"


_NO_SPEECH: Final = "perdure does not speak"
_NO_IMAGES: Final = "there is no tool for images or sound; an MCP server can be one"
_NO_MEMORY: Final = "there is no vector memory; the journal keeps everything, and old turns are condensed from it"
_NO_BROWSER: Final = "pages are fetched without a browser; `read_webpage` takes their text out"
_NO_PLUGINS: Final = "there are no plugins; MCP servers take their place"
_NO_BUCKETS: Final = "files of a task are in a folder of this machine"
_NO_AZURE: Final = "not read; name the deployment with `--model` and its address in `OPENAI_API_BASE_URL`"
_NO_PLATFORM: Final = "the platform of AutoGPT is not called"
_NO_SERVER: Final = "there is no server of the Agent Protocol"
_LOGS: Final = "the journal is the log: `perdure log TASK --follow`, and `log_dir` for files"
_THINKING: Final = "how long a model thinks is left to its provider's default"
_CYCLES: Final = "say `--continuous` and `--continuous-limit N` when you start or resume; a file never switches it on"

ENV: Final = (
    Row("OPENAI_API_KEY", "key of OpenAI, or of the compatible service", variable="OPENAI_API_KEY", is_common=True),
    Row("ANTHROPIC_API_KEY", "key of Anthropic", variable="ANTHROPIC_API_KEY", is_common=True),
    Row("GOOGLE_API_KEY", "key of Google's models; it does not search", variable="GOOGLE_API_KEY", is_common=True),
    Row("GROQ_API_KEY", "key of Groq", variable="GROQ_API_KEY", is_common=True),
    Row("TAVILY_API_KEY", "`web_search` uses Tavily", variable="TAVILY_API_KEY", is_common=True),
    Row("SERPER_API_KEY", "`web_search` uses Serper", variable="SERPER_API_KEY", is_common=True),
    Row("OPENAI_ORGANIZATION", "organisation that OpenAI bills", variable="OPENAI_ORG_ID", is_common=True),
    Row("ANTHROPIC_API_BASE_URL", "address of Anthropic's API", variable="ANTHROPIC_BASE_URL", is_common=True),
    Row("GROQ_API_BASE_URL", "address of Groq's API", variable="GROQ_BASE_URL", is_common=True),
    Row("OPENAI_API_BASE_URL", "address of an OpenAI-compatible service; it is for models of `openai:` only",
        read.base_url, variable="OPENAI_API_BASE_URL", is_common=True),
    Row("LLAMAFILE_API_BASE", "address of a llamafile, where `SMART_LLM` is one", read.llamafile),
    Row("SMART_LLM_MODEL", "until 0.4.3, as `SMART_LLM`", read.smart),
    Row("FAST_LLM_MODEL", "until 0.4.3, as `FAST_LLM`", read.fast),
    Row("SMART_LLM", "the model that thinks: `gpt-4o` is `--model openai:gpt-4o`", read.smart),
    Row("FAST_LLM", "the model that judges and reflects", read.fast),
    Row("SMART_TOKEN_LIMIT", "until 0.4.3: tokens of a request", read.count("context_max")),
    Row("TEMPERATURE", "handed to the model, 0 to 2", read.temperature, is_common=True),
    Row("PROMPT_STRATEGY", f"one of {', '.join(f'`{name}`' for name in read.STRATEGIES)}", read.strategy),
    Row("RESTRICT_TO_WORKSPACE", "False: file tools may leave the workspace", read.restriction),
    Row("EXECUTE_LOCAL_COMMANDS", "False: `execute_shell` is not offered", read.local_commands),
    Row("SHELL_COMMAND_CONTROL", "which of the next two lists is in force: `denylist` or `allowlist`",
        read.shell_control),
    Row("SHELL_DENYLIST", "programs that `execute_shell` refuses: `sudo` is the pattern `execute_shell(sudo:**)`",
        read.shell_denylist),
    Row("SHELL_ALLOWLIST", "the only programs that `execute_shell` takes; they are still asked for",
        read.shell_allowlist),
    Row("DENY_COMMANDS", "until 0.4.3, as `SHELL_DENYLIST`", read.shell_denylist),
    Row("ALLOW_COMMANDS", "until 0.4.3, as `SHELL_ALLOWLIST`", read.shell_allowlist),
    Row("DISABLED_COMMANDS", "tools that are not offered", read.commands),
    Row("DISABLED_COMMAND_CATEGORIES", "kinds of tools that are not offered", read.categories),
    Row("AI_SETTINGS_FILE", "where `ai_settings.yaml` is, from the working directory", part="file"),
    Row("PROMPT_SETTINGS_FILE", "where `prompt_settings.yaml` is, from the working directory", part="file"),
    Row("AUTHORISE_COMMAND_KEY", "the key is `y`"),
    Row("EXIT_KEY", "the key is `n`; it refuses the call, Ctrl-C pauses the task"),
    Row("NONINTERACTIVE_MODE", "say `--unattended`"),
    Row("OPENAI_FUNCTIONS", "tools are always called the provider's own way"),
    Row("THINKING_BUDGET_TOKENS", _THINKING),
    Row("REASONING_EFFORT", _THINKING),
    Row("FAST_TOKEN_LIMIT", "one limit holds for both models: `SMART_TOKEN_LIMIT`"),
    Row("USE_AZURE", _NO_AZURE),
    Row("AZURE_CONFIG_FILE", _NO_AZURE),
    Row("AZURE_OPENAI_AD_TOKEN", _NO_AZURE, is_common=True),
    Row("AZURE_OPENAI_ENDPOINT", _NO_AZURE, is_common=True),
    Row("OPENAI_API_TYPE", _NO_AZURE, is_common=True),
    Row("OPENAI_API_VERSION", _NO_AZURE, is_common=True),
    Row("EMBEDDING_MODEL", _NO_MEMORY, is_common=True),
    Row("MEMORY_BACKEND", _NO_MEMORY),
    Row("MEMORY_INDEX", _NO_MEMORY),
    Row("REDIS_HOST", _NO_MEMORY, is_common=True),
    Row("REDIS_PORT", _NO_MEMORY, is_common=True),
    Row("REDIS_PASSWORD", _NO_MEMORY, is_common=True),
    Row("WIPE_REDIS_ON_START", _NO_MEMORY),
    Row("PINECONE_API_KEY", _NO_MEMORY, is_common=True),
    Row("PINECONE_ENV", _NO_MEMORY, is_common=True),
    Row("FILE_STORAGE_BACKEND", _NO_BUCKETS),
    Row("WORKSPACE_BACKEND", _NO_BUCKETS),
    Row("STORAGE_BUCKET", _NO_BUCKETS, is_common=True),
    Row("S3_ENDPOINT_URL", _NO_BUCKETS, is_common=True),
    Row("COMPONENT_CONFIG_FILE", "there are no components; limits of tools are perdure's own"),
    Row("PLUGINS_DIR", _NO_PLUGINS, is_common=True),
    Row("PLUGINS_CONFIG_FILE", _NO_PLUGINS),
    Row("ALLOWLISTED_PLUGINS", _NO_PLUGINS),
    Row("DENYLISTED_PLUGINS", _NO_PLUGINS),
    Row("OPENAI_PLUGINS", _NO_PLUGINS),
    Row("GITHUB_API_KEY", "`clone_repository` reads what is public, with no user of git's", is_common=True),
    Row("GITHUB_USERNAME", "`clone_repository` reads what is public, with no user of git's", is_common=True),
    Row("GOOGLE_CUSTOM_SEARCH_ENGINE_ID", "`web_search` uses Tavily, Serper or ddgs", is_common=True),
    Row("USER_AGENT", "pages are asked for in perdure's own name", is_common=True),
    Row("USE_WEB_BROWSER", _NO_BROWSER),
    Row("HEADLESS_BROWSER", _NO_BROWSER),
    Row("BROWSE_CHUNK_MAX_LENGTH", _NO_BROWSER),
    Row("BROWSE_SPACY_LANGUAGE_MODEL", _NO_BROWSER),
    Row("IMAGE_PROVIDER", _NO_IMAGES),
    Row("IMAGE_SIZE", _NO_IMAGES),
    Row("HUGGINGFACE_API_TOKEN", _NO_IMAGES, is_common=True),
    Row("HUGGINGFACE_IMAGE_MODEL", _NO_IMAGES),
    Row("SD_WEBUI_AUTH", _NO_IMAGES),
    Row("SD_WEBUI_URL", _NO_IMAGES),
    Row("AUDIO_TO_TEXT_PROVIDER", _NO_IMAGES),
    Row("HUGGINGFACE_AUDIO_TO_TEXT_MODEL", _NO_IMAGES),
    Row("TEXT_TO_SPEECH_PROVIDER", _NO_SPEECH),
    Row("STREAMELEMENTS_VOICE", _NO_SPEECH),
    Row("ELEVENLABS_API_KEY", _NO_SPEECH, is_common=True),
    Row("ELEVENLABS_VOICE_ID", _NO_SPEECH, is_common=True),
    Row("CHAT_MESSAGES_ENABLED", "people are told through `notify_url` and `notify_command`"),
    Row("LOG_LEVEL", _LOGS, is_common=True),
    Row("LOG_FORMAT", _LOGS, is_common=True),
    Row("LOG_FILE_FORMAT", _LOGS, is_common=True),
    Row("PLAIN_OUTPUT", "nothing is animated where the output is no terminal; `NO_COLOR=1` takes colours away"),
    Row("TELEMETRY_OPT_IN", "nothing is sent to anybody", is_common=True),
    Row("AP_SERVER_PORT", _NO_SERVER),
    Row("AP_SERVER_DB_URL", _NO_SERVER),
    Row("AP_SERVER_CORS_ALLOWED_ORIGINS", _NO_SERVER),
    Row("PLATFORM_API_KEY", _NO_PLATFORM, is_common=True),
    Row("PLATFORM_BLOCKS_ENABLED", _NO_PLATFORM),
    Row("PLATFORM_URL", _NO_PLATFORM, is_common=True),
    Row("PLATFORM_TIMEOUT", _NO_PLATFORM),
)  # fmt: skip

PROFILE: Final = (
    Row("ai_name", "the agent's name, in its prompt", read.text("name")),
    Row("ai_role", "what it is, in its prompt", read.text("role")),
    Row("ai_goals", "the goal; a GOAL on the command line goes before it", part="goals"),
    Row("api_budget", "the hard limit of the task in US dollars; 0: none", read.budget),
    Row("constraints", "in its prompt", read.texts("constraints")),
    Row("resources", "in its prompt", read.texts("resources")),
    Row("best_practices", "in its prompt", read.texts("best_practices")),
    Row("performance_evaluations", "until 0.5, as `best_practices`, behind these", read.texts("best_practices")),
)

PERMISSIONS: Final = (
    Row("permissions.allow", "patterns of calls that need no permission", read.patterns("allow")),
    Row(
        "permissions.deny", "patterns of calls that are refused; they go before what is allowed", read.patterns("deny")
    ),
)

STATE: Final = (
    Row("task", "the goal, or the first sentence of it where `ai_goals` says more", part="goals"),
    Row("ai_profile.ai_name", "as in `ai_settings.yaml`", read.text("name")),
    Row("ai_profile.ai_role", "as in `ai_settings.yaml`", read.text("role")),
    Row("ai_profile.ai_goals", "as in `ai_settings.yaml`", part="goals"),
    Row("ai_profile.api_budget", "what may be spent from now on, in US dollars; what AutoGPT spent is not on record",
        read.budget),
    Row("directives.constraints", "in its prompt", read.texts("constraints")),
    Row("directives.resources", "in its prompt", read.texts("resources")),
    Row("directives.best_practices", "in its prompt", read.texts("best_practices")),
    Row("config.smart_llm", "the model that thinks; `--model` goes before it", read.smart),
    Row("config.fast_llm", "the model that judges and reflects", read.fast),
    Row("config.big_brain", "false: `fast_llm` thinks", part="model"),
    Row("config.allow_fs_access", "true: file tools may leave the workspace", read.access),
    Row("config.send_token_limit", "tokens of a request", read.count("context_max")),
    Row("history.episodes", "what was done, as turns of the conversation: call and result", part="history"),
    Row("history.pending_user_feedback", "the last thing said to the agent", part="history"),
    Row("history.cursor", "which episode was under way is told by its missing result"),
    Row("context.items", "the agent is told which files and folders were open", part="history"),
    Row("agent_id", "a task has a name of its own: `--name`"),
    Row("name", "says nothing of the agent; its name is `ai_profile.ai_name`"),
    Row("description", "says nothing of the agent"),
    Row("agent_data_dir", "the folder of the file is taken, wherever it lies now"),
    Row("prompt_config", "prompts are perdure's own"),
    Row("config.use_functions_api", "tools are always called the provider's own way"),
    Row("config.default_cycle_instruction", "prompts are perdure's own"),
    Row("config.cycle_budget", _CYCLES),
    Row("config.cycles_remaining", _CYCLES),
    Row("config.cycle_count", "actions are counted anew"),
    Row("config.summary_max_tlength", "results are cut where the conversation is condensed"),
    Row("config.plugins", _NO_PLUGINS),
)  # fmt: skip

ENV_ROWS: Final = {row.name: row for row in ENV}
PROFILE_ROWS: Final = {row.name: row for row in PROFILE}
PERMISSION_ROWS: Final = {row.name: row for row in PERMISSIONS}
STATE_ROWS: Final = {row.name: row for row in STATE}

TABLES: Final = {
    ".env": ENV,
    "ai_settings.yaml, prompt_settings.yaml": PROFILE,
    "autogpt.yaml, permissions.yaml": PERMISSIONS,
    "state.json": STATE,
}
