"""The words by which errors are told apart: families of codes, and phrases of messages. Patterns only, no decisions.

Codes are compared whole, in snake case (`reading.named`); phrases are searched for within a message. A family is
written by what its members have in common, so that a code nobody has listed yet (`team_spend_limit_exceeded`) finds
its place.
"""

from __future__ import annotations

from typing import Final


def _any(*patterns: str) -> str:
    return "|".join(patterns)


# --- codes ----------------------------------------------------------------------------------------------------------
CREDIT_CODES: Final = _any(
    r"insufficient_(?:\w+_)?(?:quota|balance|credits?|funds)",
    r"\w*(?:credit|balance|spend|spending|usage|billing|budget|cost|payment)\w*"
    r"(?:exhausted|exceeded|depleted|too_low|reached|error|disabled|required|inactive|not_active|limit|budget)",
    r"weight_exceeds_budget|usage_not_included|account_inactive|arrearage|out_of_credits|openrouter_credits|openrouter_\w*(?:budget|limit)",
)
QUOTA_CODES: Final = _any(
    r"\w*quota\w*(?:exceeded|exhausted|reached|limited)\w*", r"(?:exceeded|exhausted)_\w*quota\w*", r"daily_limit_\w+"
)
KEY_CODES: Final = _any(
    r"(?:invalid|incorrect|missing|expired|no|bad|wrong|revoked)_(?:api_?key|token|credentials?|client|grant|auth\w*)\w*",
    r"\w*api_?key_(?:\w+_)?(?:invalid|expired|blocked|missing|not_valid|disabled|required)",
    r"(?:invalid|expired|missing|revoked)_key|key_(?:invalid|expired|revoked|disabled|not_found)",
    r"(?:\w+_)?token_(?:expired|invalid|revoked)|expired_\w*token|access_token_\w+",
    r"\w*(?:authentication|authorization|permission)s?_(?:error|failed|failure|denied|required)",
    r"unauthenticated|unauthori[sz]ed\w*|insufficient_permissions?|(?:access|request)_denied|not_authorized|forbidden",
    r"account_(?:deactivated|disabled|suspended)|\w*organization_(?:disabled|restricted)|mismatched_organization",
    r"unrecognized_client|(?:invalid|incomplete)_signature|signature_does_not_match|opt_in_required",
    r"service_disabled|consumer_(?:suspended|invalid)|unsupported_country\w*",
)
CONTEXT_CODES: Final = _any(
    r"\w*context_(?:length|window|size|limit)\w*(?:exceeded|error|overflow)\w*|context_overflow|max_context\w*",
    r"exceed_context_size\w*|prompt_exceeds\w*|tokens?_limit_reached",
    r"(?:request|payload|prompt|input|content|message|(?:request_)?entity)s?_too_(?:large|long|big)",
    r"string_above_max_length|string_too_long",
)
FILTER_CODES: Final = _any(
    r"content_(?:filter\w*|policy_violation|moderation\w*|blocked)|\w+_policy_violation|data_inspection_failed",
    r"\w*moderation_(?:\w+_)?(?:blocked|failed|error|flagged)|prohibited_content|image_safety|safety(?:_violations?)?",
    r"recitation|blocklist|spii|refusal|guardrail_intervened",
)
OUTPUT_CODES: Final = r"tool_use_failed|json_validate_failed|output_parse_failed|max_tokens_exceeded"
MODEL_CODES: Final = r"model_not_ready|model_timeout|model_(?:stream_)?error"
RATE_CODES: Final = _any(
    r"\w*rate_?limit\w*|too_many_requests\w*|\w*throttl\w*|slow_down|\w*throughput_exceeded|resource_exhausted",
    r"\w*concurren\w*(?:exceeded|limit\w*|reached)|limit_(?:requests|tokens)|(?:request|bandwidth)_limit_exceeded",
    r"prior_request_not_complete|transaction_in_progress",
)
ABORTED_CODES: Final = r"(?:\w+_)?aborted|conflict_error|lock_timeout|concurrent_\w+"
LATE_CODES: Final = r"request_time_?(?:d_)?out(?:_error)?"
# What a gateway or a provider calls every "no", whatever the reason: the message may know it better.
BROAD_CODES: Final = r"permission_(?:denied|error)|(?:access|request)_denied|request_forbidden|forbidden"
BUSY_CODES: Final = r"\w*overload\w*|\w*capacity\w*|\w*unavailable\w*|(?:server|engine)_\w*busy|no_available_\w+"
SERVER_CODES: Final = _any(
    r"\w*server_error\w*|internal\w*|api_error|timeout(?:_error)?|\w*timeout|deadline_exceeded|bad_gateway",
    r"unknown_error|aborted|upstream_\w*error",
)
REQUEST_CODES: Final = _any(
    r"\w*invalid_?(?:request|argument|prompt|parameter|value|input|image|json|type)\w*|bad_request\w*|conflict\w*",
    r"\w*not_found\w*|failed_precondition|out_of_range|validation\w*|unsupported_\w+|unimplemented|missing_\w+",
    r"unknown_parameter|model_not_\w+|already_exists|unprocessable\w*",
)

# --- limits ---------------------------------------------------------------------------------------------------------
PER_DAY: Final = r"per[_ -]?day|by[_ -]?day|/ ?d(?:ay)?\b|daily|\b[rt]pd\b"
PER_LONGER: Final = rf"{PER_DAY}|for today|monthly|weekly|(?:per[_ -]?|/ ?)(?:month|week)\b"
PER_MINUTE: Final = (
    r"per[_ -]?(?:minute|second|hour|min)\b|per(?:minute|second|hour)|/ ?(?:min(?:ute)?|s(?:econd)?)\b|\b[rt]pm\b"
)
LIMIT_PER_DAY: Final = rf"(?:limit|quota)[^\n]{{0,80}}(?:{PER_LONGER})|(?:{PER_LONGER})[^\n]{{0,80}}(?:limit|quota)"
LIMIT_ZERO: Final = r"quota exceeded for metric[^\n]{0,200}limit: 0\b(?!\.)"
TOO_LARGE: Final = r"request too large for|tokens must be reduced|reduce your message size"
CURRENT_QUOTA: Final = r"exceeded your current quota|plan and billing"

# --- phrases --------------------------------------------------------------------------------------------------------
TOO_LONG: Final = _any(
    r"(?:prompt|input|request|conversation|history) (?:is )?too (?:long|large)\b|too large for model|string too long",
    r"(?:reduce|shorten) (?:the length of |the size of )?(?:the |your )?(?:messages?|prompt|input)\b",
    r"tokens must be reduced|max_tokens must be at least 1, got -|context overflow",
    r"(?:ran|run|running) out of (?:room in |space in )?(?:the )?(?:model'?s )?context",
    r"(?:maximum|max) (?:context|prompt|input|sequence) (?:length|size|window)",
    r"exceed\w{0,12}[\w ,'`]{0,40}\bcontext\b|context[ _](?:length|limit|size|window)[\w ]{0,20} (?:exceed|overflow)",
    r"exceed\w{0,12}[\w ]{0,20} (?:maximum|max)[\w ]{0,20} (?:tokens|length)|tokens? > \d+ maximum",
    r"(?:larger|longer|bigger) than (?:the )?(?:model'?s? )?(?:maximum )?(?:context|model length)",
    r"(?:number of|input|prompt|total) tokens exceeds? (?:the )?(?:limit|maximum)",
    r"exceed\w{0,12} (?:the )?model token limit",
    r"(?:prompt|input) (?:token )?(?:length|count)[\w ]{0,20} exceeds?\b",
    r"token limit exceeded[^\n]{0,40}\b(?:input|prompt)",
    r"tokens in the (?:prompt|input|messages?|request) (?:cannot|can'?t|must not|may not|should not) exceed",
    r"must be (?:less|smaller|fewer) than (?:or equal to )?the (?:model'?s? )?(?:maximum )?context",
    r"too many (?:input|total|prompt) tokens|range of input length|must have less than \d+ tokens",
    r"max_new_tokens` must be <=",
)
# Said of money alone, so that it outweighs a code that may mean a rate or a right.
SPENT: Final = _any(
    r"balance (?:is )?(?:too low|insufficient|depleted|exhausted|not enough)|(?:low|negative) (?:account )?balance",
    r"insufficient[ _](?:account )?(?:balance|credits?|funds)|used (?:up )?all (?:\w+ ){0,2}credits",
    r"credits? (?:balance )?(?:is |are |have been |has been )?(?:exhausted|depleted|used up|too low)|out of credits",
    r"spend(?:ing)? (?:hard )?(?:limit|cap)s? (?:has been |was |is )?(?:reached|exceeded|hit)",
    r"(?:reach|hit|exceed)\w{0,12} (?:[\w']+ ){1,6}(?:spend(?:ing)?|billing|budget|credit) (?:limit|cap)s?\b",
    r"(?:extra|additional|paid) usage is required|does(?:n'?t| not) have a free (?:quota|tier)",
)
NO_MONEY: Final = _any(
    SPENT,
    r"insufficient[ _]quota|exceed(?:ed|s) (?:your|the) (?:\w+ ){0,2}quota",
    r"(?:out of|no (?:more|remaining|prepaid)|not enough|requires? more|purchase) (?:\w+ )?(?:credits?|funds)\b",
    r"(?:have|has) (?:any|no|insufficient) (?:\w+ )?credits|exhausted (?:your|the) (?:\w+ ){0,2}quota\b",
    r"out of (?:\w+ ){1,3}quota|余额不足|欠费",
    r"(?:reach|hit|exceed)\w{0,12} (?:[\w']+ ){1,6}(?:usage|cost|pay-as-you-go) limits?\b",
    r"run out of (?:\w+ ){0,2}(?:credits|searches|requests|calls|quota)\b|limit reached\W{1,4}resets?\b",
    r"(?:usage|billing|budget|credit|key|quota) (?:hard )?limits? (?:has been |was |is )?"
    r"(?:reached|exceeded|hit)",
    r"(?:reached|hit) your (?:\w+ ){0,5}limits?\b|monthly (?:\w+ )?(?:limit|quota)|payment required",
    r"(?:check|enable|set up) (?:your )?(?:plan and )?billing|billing (?:is )?(?:not active|disabled)",
)
WILL_RESET: Final = r"quota will reset|exhausted (?:your|the) capacity"
BAD_KEY: Final = _any(
    r"(?:api[ _-]?key|x-api-key|(?:api|access|auth\w{0,12}|bearer|security|session)[ _-]?token|credentials?)"
    r"[\w' ]{0,30}\b(?:invalid|expired|revoked|disabled|missing|not valid|incorrect|required|must be set"
    r"|not found|not provided|suspended|deactivated|blocked|leaked)",
    r"(?:invalid|expired|revoked|incorrect|missing|wrong|no|disabled)[\w ]{0,20} "
    r"(?:api[ _-]?key|x-api-key|(?:api|access|auth\w{0,12}|bearer)[ _-]token|credentials?|subscription key)\b",
    r"\bkey (?:is |has |was )?(?:been )?(?:invalid|expired|revoked|disabled)\b|permission denied \(publickey",
    r"(?:organization|account) (?:is|was|has been) (?:disabled|suspended|deactivated)",
    r"authentication (?:fail|error|required)|not authenticated|\bunauthori[sz]ed\b|resolve authentication",
    r"location is not supported|(?:please|must) (?:log ?in|sign ?in|run /login|authenticate)|key option must be set",
    r"\brun:?\s+[`'\"$ ]{0,3}(?:[\w-]+ ){1,3}(?:login|signin)\b|set an auth method|please set [^\n]{0,120}_api_key\b",
    r"not authori[sz]ed to\b|client secret[\w' ]{0,40} (?:invalid|expired|incorrect)",
    r"could not read (?:username|password)",
    r"\btoken (?:has |is |was )?(?:been )?(?:expired|revoked)",
)
# Said of what was asked for, so that it outweighs a code that may mean a right.
VIOLATES: Final = _any(
    r"violat\w{1,4} [\w' ]{0,40}(?:guidelines?|polic(?:y|ies)|terms)|safety_check|safety system",
    r"(?:content|prompt|input|output|message) (?:was |is |has been |were )?(?:flagged|blocked)",
)
REFUSED: Final = _any(
    VIOLATES,
    r"(?:usage|safety|content)(?: management| filter\w{0,8}| moderation| safety)? polic(?:y|ies)|content[_ ]filter",
    r"(?:was|were|been|is) flagged|blocked by (?:our |the |a )?(?:content|safety|moderation|model armor|guardrail)",
    r"responsible ai|for safety reasons|guardrails? (?:has |have |was )?(?:intervened|blocked|triggered)",
    r"(?:inappropriate|prohibited) content|blocked (?:input|prompt|output|content)\b|content exists risk|敏感内容",
)
THROTTLED: Final = _any(
    r"rate[ -]?limit(?:ed|ing| (?:is |was |has been )?(?:reached|exceeded|hit))|too many requests|throttl",
    r"exceed\w{0,12}[\w ',]{0,40} rate[ -]limit|(?:please )?slow down",
)
THROTTLED_429: Final = rf"(?:try again|retry) (?:in|after) (?:\d|a (?:few|moment))|{PER_MINUTE}|too many requests"
DOWN: Final = _any(
    r"\boverloaded\b|(?:currently|temporarily|service) unavailable|(?:at|over) capacity|bad gateway|gateway time-?out",
    r"internal server error|high (?:demand|load|traffic)|maximum pending requests",
)
OFFLINE: Final = _any(
    r"connection (?:reset|refused|aborted|closed|timed out|error|lost)|could not resolve host|couldn'?t connect",
    r"failed to connect|name or service not known|temporary failure in name resolution|getaddrinfo|no route to host",
    r"network is unreachable|remote end closed|server disconnected|peer closed|econn(?:reset|refused|aborted)",
    r"etimedout|enotfound|eai_again|socket hang up|fetch failed|unexpected[ _]eof|eof occurred in violation",
    r"error sending request|hung up unexpectedly|\bearly eof\b|no such host|all connection attempts failed",
    r"unable to resolve host|temporary failure resolving|rpc failed|connection unexpectedly closed",
    r"context deadline exceeded|client\.timeout exceeded",
    r"premature (?:close|end of)|connection (?:broken|attempt failed|was (?:closed|reset|lost))|tcp connect error",
    r"(?:read|write|connect|handshake|request|operation|connection|gateway) (?:operation )?timed out|i/o timeout",
    r"tls handshake timeout|^(?:\w+: )?timed out|curl: \((?:5|6|7|16|18|28|35|52|55|56|92)\)",
)
CERTIFICATE: Final = _any(
    r"certificate[ _]verify[ _]failed|certificate (?:has expired|is not (?:yet )?valid|verification|problem)",
    r"self[- ]signed certificate|unable to get (?:local )?issuer|hostname mismatch|doesn'?t match (?:either of )?'",
    r"unknown[ _]ca\b|bad[ _]certificate|certificate[ _](?:expired|revoked|unknown|required)",
    r"untrusted (?:root|certificate)",
    r"curl: \((?:51|58|60|77)\)",
)
TLS_MISMATCH: Final = _any(
    r"wrong[ _]version[ _]number|unsupported[ _]protocol|no[ _]protocols[ _]available|handshake[ _]failure",
    r"no[ _]shared[ _]cipher|insufficient[ _]security|alert[ _]protocol[ _]version|record[ _]layer[ _]failure",
)
# A check that failed tells what it expected: whatever it quotes is no error of this process.
ASSERTION: Final = r"\bassert(?:ion\w{0,8})?\b|--- FAIL\b"
CHECK: Final = _any(
    ASSERTION,
    r"\bexpected\b[^\n]{0,100}\b(?:got|but|received|to (?:be|equal|say|have|contain|match))\b",
)
DISK: Final = r"no space left on device|disk quota exceeded|\benospc\b|\bedquot\b|input/output error"
SESSION: Final = r"session (?:terminated|not found|expired|closed)|connection closed|not connected"

# --- names of exception classes, in snake case ----------------------------------------------------------------------
URL_TYPES: Final = _any(
    r"invalid_(?:url|schema|header|proxy_url|uri)\w*|missing_schema|unsupported_protocol|local_protocol_error",
    r"too_many_redirects|non_http_url\w*|location_(?:parse|value)_error|stream_(?:consumed|closed)|re\w+_not_read",
    r"user_error",
)
CERTIFICATE_TYPES: Final = r"\w*cert(?:ificate)?_\w*"
AUTH_TYPES: Final = r"\w*(?:credential|refresh_error|authentication|o_auth|token_retrieval|unauthorized)\w*"
OUTPUT_TYPES: Final = _any(
    r"\w*json_decode_error|(?:api_)?response_validation_error|length_finish_reason_error|(?:content_)?decoding_error",
    r"content_type_error|decode_error|unexpected_model_behavior|output_token_limit_exceeded|incomplete_tool_call",
)
FILTER_TYPES: Final = r"content_filter_(?:finish_reason_)?error|(?:blocked|stop)_\w*(?:prompt|candidate)\w*"
NETWORK_TYPES: Final = (
    r"\w*(?:connect|time_?out|timed_out|network|protocol|proxy|read_error|write_error|close_error|chunked|incomplete"
    r"|payload|ssl|pool|bad_status_line|gaierror|herror|client_os|name_resolution|max_retry|url_error|transport|stream"
    r"|resource|broken|socket|model_api)\w*"
)
