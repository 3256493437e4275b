"""Whether a request might use tools: asked about a client that is execute-locked, and about nobody else.

There are more ways to offer a model tools than anybody could list, and new ones every month. So the question is put the
other way round: what is not wholly of a shape that is known here, and known to have no tools in it, may use them. A
locked client is refused that; nobody else is asked.

1. A body is a JSON object, a form, a text or a file. Nothing else: no other notation is read as its reader would.
2. Every name in it is one of those that the common APIs have for other things than tools, at the place where they have
   it. What a person says, wherever words stand, is words.
3. A conversation may have had calls and results in it, since it cannot be had without them any more. It must go on with
   a user's words, and not with a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final
from urllib.parse import parse_qsl

from lockgate.abuse_gate.request.content_kinds import MEDIA, detect_kind
from lockgate.abuse_gate.request.json_body import UnreadableRequest, read_json
from lockgate.abuse_gate.request.multipart import parse_parameters, split_parts

# Names under which words stand, or the parts that they are divided into.
_WORDS: Final = frozenset(
    "prompt prompt_text input inputs message text query question q content suffix system system_prompt instructions"
    " preamble search user_input texts title subject comment body_text negative_prompt".split()
)
_CHATS: Final = frozenset("messages contents chat_history history".split())
# The system's words in Gemini's shape: a message without a role.
_SYSTEMS: Final = frozenset("system_instruction systemInstruction".split())
# What may stand there is one value, or a list of such: no object, in which anything might be.
_VALUES: Final = frozenset(
    "model models user user_id username session_id request_id trace_id client_id tenant language lang locale timezone"
    " temperature top_p top_k top_a min_p typical_p n best_of seed stop stop_sequences max_tokens max_tokens_to_sample"
    " max_completion_tokens max_output_tokens max_new_tokens max_length max_input_tokens num_predict num_ctx stream"
    " presence_penalty frequency_penalty repetition_penalty repeat_penalty length_penalty do_sample use_cache logprobs"
    " top_logprobs echo store service_tier safety_identifier prompt_cache_key prompt_cache_retention verbosity"
    " reasoning_effort modalities truncate truncation include background parallel_tool_calls anthropic_version"
    " encoding_format dimensions input_type embedding_types output_dimension response_format timestamp_granularities"
    " timestamp_granularities[] chunking_strategy include[] voice speed size quality style aspect_ratio output_format"
    " output_compression moderation partial_images input_fidelity strength steps guidance_scale width height"
    " num_inference_steps purpose raw keep_alive think format template images image image[] mask video audio num_beams"
    " early_stopping safe_prompt random_seed prompt_truncation citation_quality safety_mode id name version date"
    " created timestamp filename url add_generation_prompt continue_final_message min_tokens skip_special_tokens"
    " include_stop_str_in_output ignore_eos stop_token_ids context createdAt trigger messageId".split()
)
# Settings of a model in an object, whose names are these or of those above.
_SETTINGS: Final = frozenset(
    "generation_config generationConfig inferenceConfig options parameters stream_options reasoning thinking"
    " safety_settings safetySettings cache_control prediction audio output_config text citation_options"
    " performanceConfig guardrailConfig chat_template_kwargs image_config".split()
)
_SETTING: Final = frozenset(
    "topP topK candidateCount maxOutputTokens stopSequences responseMimeType presencePenalty frequencyPenalty"
    " responseModalities responseLogprobs mediaResolution maxTokens thinkingConfig thinkingBudget includeThoughts"
    " thinkingLevel speechConfig voiceConfig prebuiltVoiceConfig voiceName languageCode imageConfig"
    " aspectRatio imageSize"
    " num_keep num_batch num_gpu main_gpu num_thread use_mmap use_mlock low_vram numa penalize_newline mirostat"
    " mirostat_tau mirostat_eta tfs_z repeat_last_n return_full_text details decoder_input_details watermark"
    " top_n_tokens"
    " truncate wait_for_model num_return_sequences max_time include_usage include_obfuscation effort summary"
    " generate_summary exclude enabled type budget_tokens category threshold method ttl content text mode latency"
    " guardrailIdentifier guardrailVersion trace streamProcessingMode enable_thinking thinking image_size strict"
    " description verbosity format".split()
) | (_VALUES - {"model", "models"})
# In these a name is anybody's, and a value is one value.
_LABELS: Final = frozenset("metadata logit_bias labels requestMetadata".split())
# What an answer has to look like, and what it is about: in these a name is the application's own.
_FREE: Final = frozenset("response_format response_schema documents format guided_json".split())
_SCHEMAS: Final = frozenset("schema json_schema responseSchema response_schema responseJsonSchema".split())
_MESSAGE: Final = frozenset(
    "role content parts name id type status text message refusal audio annotations reasoning reasoning_content"
    " reasoning_details thinking cache_control prefix images user_name tool_calls tool_call_id function_call citations"
    " tool_plan phase createdAt metadata".split()
)
# Parts of a message, by their `type` or, where they have none, by their name.
_PARTS: Final = frozenset(
    "text input_text output_text refusal image image_url input_image audio input_audio audio_url video video_url"
    " input_video file input_file document search_result thinking redacted_thinking reasoning reasoning_text"
    " summary_text inline_data inlineData file_data fileData cachePoint reasoningContent guardContent thought"
    " thoughtSignature thought_signature videoMetadata video_metadata cache_control step-start".split()
)
# And what stands beside it in them.
_OF_A_PART: Final = _PARTS | frozenset(
    "type id detail source title context citations data media_type mime_type mimeType mediaType filename file_name"
    " file_id file_url file_uri fileUri url name content signature summary encrypted_content annotations status format"
    " state logprobs index bytes enabled cache_reference phase providerMetadata".split()
)

# Calls and results, in a conversation that goes on after them.
_ACTS: Final = frozenset(
    "tool_use tool_result toolUse toolResult functionCall functionResponse function_call function_response"
    " function_call_output server_tool_use web_search_tool_result executableCode codeExecutionResult web_search_call"
    " tool-call tool-result".split()
)
_OF_AN_ACT: Final = (
    _OF_A_PART
    | _ACTS
    | frozenset(
        "input output result response arguments args tool_use_id toolUseId tool_call_id toolCallId toolName call_id"
        " is_error isError caller providerExecuted".split()
    )
)

_ACTORS: Final = frozenset({"tool", "function", "ipython", "observation"})
_SPEAKERS: Final = frozenset("user human system developer assistant model ai chatbot User System Chatbot".split())
_NO_CHOICE: Final = ("none", "auto", {"type": "none"}, {"type": "auto"})
# Models that look things up or act without being given a tool.
_ACTING: Final = re.compile(
    "compound|:online|search|research|sonar|computer|browse|agent|operator|codex", re.IGNORECASE
)
# What a path names a model after.
_MODELS: Final = ("models", "model", "deployments", "engines")
# Endpoints that run something, or a conversation that is kept elsewhere with its tools.
_RUNNING: Final = frozenset(
    "tool tools function functions thread threads run runs assistant assistants agent agents mcp plugin plugins action"
    " actions execute exec batch batches realtime containers skills workflows graphql rpc jsonrpc"
    " reasoningengines".split()
)
_FILES: Final = frozenset(
    "file files file[] files[] f upload uploads document documents doc attachment attachments image images image[] mask"
    " audio video media pdf photo picture input_reference".split()
)

# In a text that is somebody's and may be more to others: names for tools, as a key in whatever notation.
_TOOL_NAME: Final = (
    r"(?:tools?|tool_?choice|tool_?config|tool_calls|tool_outputs|functions?|function_?call|function_?declarations"
    r"|mcp(?:_servers)?|plugins|connectors|actions|web_search(?:_options)?|code_(?:interpreter|execution)|google_?search)"
)
_KEYED: Final = re.compile(rf"{_TOOL_NAME}(?![a-z0-9])[\]\"'\[.\w%]{{0,80}}+\s{{0,80}}+(?:[:=]|/[*/])", re.IGNORECASE)
# What such a name begins with.
_STEMS: Final = ("tool", "function", "mcp", "plugins", "connectors", "actions", "web_search", "code_", "google")
# Who writes these so often in one text has something else in mind than a text.
_MAX_NAMES: Final = 1000
# A key with an escape in it can be any name; nobody writes one in words.
_ESCAPED_KEY: Final = re.compile(r"[\"'][^\"'\n\\]{0,80}+\\[^\"'\n]{0,80}+[\"']\s{0,80}+[:=]")
_ESCAPES: Final = re.compile(r"\\(?:u00|x)([0-9a-fA-F]{2})")
_LOOKS_LIKE_TOOLS: Final = re.compile(
    r"(?<![a-z])(?:tools?|functions?|mcp|plugins?|interpreter)(?![a-z])|web_?search|browse|execut", re.IGNORECASE
)
_GRAPHQL: Final = re.compile(r"\s*(?:\{|(?:query|mutation|subscription|fragment)\b[^{]{0,500}\{)")
_JSON: Final = re.compile(r"[\s\ufeff\x00]*+[{\[\"]")


def may_use_tools(body: bytes, content_type: str, path: str = "", query: bytes = b"") -> bool:
    """Whether a request is anything else than what is known to use none. Pure, and linear in the size of the body."""
    if any(segment.lower() in _RUNNING for segment in re.split("[/:.;]", path)):
        return True
    segments = path.lower().split("/")
    if any(before in _MODELS and _ACTING.search(after) for before, after in pairwise(segments)):
        return True
    try:
        text = query.decode("utf-8")
        for name, value in parse_qsl(text, keep_blank_values=True, errors="strict"):
            if _names_tools(name) or _LOOKS_LIKE_TOOLS.search(name) or not _is_speech(value):
                return True
        return bool(body) and not _is_plain_body(body, content_type)
    except (UnicodeError, ValueError, UnreadableRequest):
        return True


def _is_plain_body(body: bytes, content_type: str) -> bool:
    parsed = parse_parameters(content_type) if content_type.strip() else ("", dict[str, str]())
    if parsed is None or parsed[1].get("charset", "utf-8").lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        return False
    media, given = parsed
    if media == "multipart/form-data":
        return _are_plain_parts(body, given.get("boundary", ""))
    kind = detect_kind(body, media)
    if kind in (*MEDIA, "pdf", "docx"):
        # A picture sent as it is. Under any other name its reader may be none that looks at its first bytes.
        return media.startswith(("image/", "audio/", "video/")) or media in (
            "application/pdf",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        )
    text = body.decode("utf-8").removeprefix("\ufeff")
    if media == "application/x-www-form-urlencoded":
        return _are_plain_fields(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=1000))
    if media in ("application/json", "text/json") or (media in ("", "text/plain") and _JSON.match(text)):
        return _is_plain_value(read_json(text))
    return media == "text/plain" and _has_no_tool_keys(text)


def _are_plain_parts(body: bytes, boundary: str) -> bool:
    listed, around = split_parts(body, boundary)
    if around:
        return False
    fields: list[tuple[str, str]] = []
    for part in listed:
        if part.filename is None:
            fields.append((part.name, part.data.decode("utf-8")))
        elif not _is_plain_file(part.name, part.data, part.content_type, part.filename):
            return False
    return _are_plain_fields(fields)


def _is_plain_file(name: str, data: bytes, content_type: str, filename: str) -> bool:
    kind = detect_kind(data, content_type, filename)
    if kind in (*MEDIA, "pdf", "docx"):
        return not _names_tools(name)
    if kind not in ("text", "html"):
        return False
    text = _unescape(data.decode("utf-8", "replace"))
    # Under a name of its own, JSON may be the request itself; a file of JSON is one, unless it is a list of requests.
    if _JSON.match(text):
        return name in _FILES and not _has_tool_keys(text)
    return not _names_tools(name)


def _are_plain_fields(fields: Iterable[tuple[str, str]]) -> bool:
    return all(
        not value
        or (name in _WORDS and _is_speech(value))
        or (
            name in _VALUES
            and not _JSON.match(value)
            and (name not in ("model", "models") or not _ACTING.search(value))
        )
        for name, value in fields
    )


def _is_plain_value(value: object) -> bool:
    if isinstance(value, str):
        return _is_speech(value)
    return isinstance(value, dict) and all(_is_plain_entry(name, inside) for name, inside in value.items())


def _is_plain_entry(name: str, value: object) -> bool:
    if value is None or value is False or value in ("", []):
        # Nothing is offered by nothing. An empty object switches on whatever has its name.
        return True
    if name in ("tool_choice", "function_call"):
        return value in _NO_CHOICE
    if name in ("model", "models"):
        listed = value if isinstance(value, list) else [value]
        return all(isinstance(one, str) and not _ACTING.search(one) for one in listed)
    if name in _CHATS or (name in ("input", "message") and isinstance(value, list | dict)):
        return _is_plain_chat(value if isinstance(value, list) else [value])
    if name in _SYSTEMS:
        return isinstance(value, str) or (isinstance(value, dict) and _classify_message(value) == _SAYS)
    if name in _WORDS and (isinstance(value, str) or (name != "text" and isinstance(value, list))):
        return _are_plain_words(value, name)
    if name in _LABELS:
        return isinstance(value, dict) and all(_is_value(one) for one in value.values())
    if name in _FREE and isinstance(value, dict | list):
        return True
    if name in _SETTINGS and isinstance(value, dict | list):
        return _are_plain_settings(value)
    return name in _VALUES and _is_value(value)


def _is_value(value: object) -> bool:
    return all(
        isinstance(one, int | float) or (isinstance(one, str) and _is_speech(one))
        for one in (value if isinstance(value, list) else [value])
    )


def _are_plain_settings(value: object) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if any(name not in _SETTING and name not in _SCHEMAS for name in item):
                return False
            stack.extend(inside for name, inside in item.items() if name not in _SCHEMAS)
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str) and not _is_speech(item):
            return False
    return True


def _are_plain_words(value: object, name: str) -> bool:
    if isinstance(value, str):
        return not (name == "query" and _GRAPHQL.match(value)) and _is_speech(value)
    if not isinstance(value, list):
        return False
    # Tokens, texts, lists of them, or the parts of a prompt.
    return all(
        isinstance(one, int)
        or (isinstance(one, str) and _is_speech(one))
        or (isinstance(one, list) and all(type(token) is int for token in one))
        or (isinstance(one, dict) and _classify_part(one) == _SAYS)
        for one in value
    )


_SAYS, _ACTS_IN_IT, _UNKNOWN = 0, 1, 2


def _is_plain_chat(messages: list[object]) -> bool:
    """Whether all of it is known, and whether it goes on with a user's words after what was called and read."""
    goes_on = True
    for message in messages:
        if isinstance(message, str):
            if not _is_speech(message):
                return False
            continue
        if isinstance(message, int) or (isinstance(message, list) and all(type(one) is int for one in message)):
            continue
        found = _classify_message(message) if isinstance(message, dict) else _UNKNOWN
        if found == _UNKNOWN or not isinstance(message, dict):
            return False
        if found == _ACTS_IN_IT:
            goes_on = False
        elif _user_speaks(message):
            goes_on = True
    return goes_on


def _user_speaks(message: dict[str, object]) -> bool:
    """Whether a user says something in it: nothing, or a dot from the system, is no word."""
    if str(message.get("role", "user")).lower() not in ("user", "human"):
        return False
    words = next((message[name] for name in ("content", "parts", "message", "text") if message.get(name)), "")
    parts = words if isinstance(words, list) else [words]
    texts = [part.get("text", "") if isinstance(part, dict) else part for part in parts]
    return any(isinstance(text, str) and any(map(str.isalnum, text)) for text in texts)


def _classify_message(message: dict[str, object]) -> int:
    kind, role = message.get("type", "message"), message.get("role", "user")
    if not isinstance(kind, str):
        return _UNKNOWN
    if kind in ("function_call", "function_call_output"):
        return _classify_part(message)
    if "content" not in message and kind in _PARTS:
        return _classify_part(message)
    if kind not in ("message", "reasoning") and kind not in _PARTS:
        return _UNKNOWN
    if not isinstance(role, str) or (role.lower() not in _SPEAKERS and role not in _SPEAKERS | _ACTORS):
        return _UNKNOWN
    found = _ACTS_IN_IT if role in _ACTORS else _SAYS
    for name, value in message.items():
        if not value:
            continue
        if name in ("tool_calls", "function_call", "tool_call_id"):
            found = _ACTS_IN_IT
        elif name in ("content", "parts") and not isinstance(value, str):
            for part in value if isinstance(value, list) else [value]:
                act = _classify_part(part) if isinstance(part, dict) else _SAYS if isinstance(part, str) else _UNKNOWN
                if act == _UNKNOWN:
                    return _UNKNOWN
                found = max(found, act)
        elif not (name in _MESSAGE or (kind == "reasoning" and name in ("summary", "encrypted_content"))) or (
            name not in _WORDS and _names_tools_within(value)
        ):
            return _UNKNOWN
    return found


def _classify_part(part: dict[str, object]) -> int:
    kind = part.get("type")
    if kind is None:
        # Gemini's and Bedrock's, whose name says what they are.
        acts = not all(name in _PARTS for name in part)
        names = _PARTS | _ACTS
    else:
        if not isinstance(kind, str) or (kind not in _PARTS and kind not in _ACTS):
            return _UNKNOWN
        acts = kind in _ACTS
        names = _OF_AN_ACT if acts else _OF_A_PART
    if any(name not in names for name in part):
        return _UNKNOWN
    # What was called, and what came of it, has names of its own.
    if not acts and any(name not in _WORDS and _names_tools_within(value) for name, value in part.items()):
        return _UNKNOWN
    return _ACTS_IN_IT if acts else _SAYS


def _has_no_tool_keys(text: str) -> bool:
    """Whether a text is only that, also to somebody who might take it for JSON, a form or a file of settings."""
    return not _has_tool_keys(_unescape(text)) and not _ESCAPED_KEY.search(text)


def _is_speech(text: str) -> bool:
    """Whether what stands where words stand is words: only what begins like JSON could be more to anybody."""
    return not _JSON.match(text) or _has_no_tool_keys(text)


def _has_tool_keys(text: str) -> bool:
    text, seen = text.lower(), 0
    # Found one by one: a search for all of them at once takes a hundred times as long.
    for stem in _STEMS:
        start = text.find(stem)
        while start >= 0:
            seen += 1
            before = text[max(0, start - 80) : start].rstrip(" \t\r\"'")
            begins = not before or (before[-1] in "\n&;?{,[.-" and text[start - 1] != "-")
            if seen > _MAX_NAMES or (begins and _KEYED.match(text, start)):
                return True
            start = text.find(stem, start + 1)
    return False


def _unescape(text: str) -> str:
    return _ESCAPES.sub(lambda match: chr(int(match[1], 16)), text) if "\\" in text else text


def _names_tools(name: str) -> bool:
    return bool(re.fullmatch(rf"(?:.*[.\[])?{_TOOL_NAME}[\]\[.].*|{_TOOL_NAME}", name, re.IGNORECASE | re.DOTALL))


def _names_tools_within(value: object) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if any(_LOOKS_LIKE_TOOLS.search(name) or _names_tools(name) for name in item):
                return True
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str) and not _is_speech(item):
            return True
    return False
