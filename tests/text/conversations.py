"""Conversations for the tests, and what is trained of them."""

from typing import Any

from penstock.text.rendered import Rendered

Message = dict[str, Any]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def user(content: Any, **more: Any) -> Message:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, **more: Any) -> Message:
    return {"role": "assistant", "content": content, **more}


def system(content: Any, **more: Any) -> Message:
    return {"role": "system", "content": content, **more}


def tool(content: Any, **more: Any) -> Message:
    return {"role": "tool", "content": content, **more}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


TWO_TURNS = [user("Hi, who are you?"), assistant(" An assistant.\n"), user("Thank you"), assistant("Bye.")]
WITH_SYSTEM = [system("Be brief."), *TWO_TURNS]
WITH_TOOLS = [
    user("Is it sunny in Paris?"),
    assistant(None, tool_calls=[call("get_weather", city="Paris", days=3)]),
    tool("21 degrees"),
    assistant("It is sunny."),
    user("Thank you"),
    assistant("Bye."),
]
SEVERAL_CALLS = [
    user("Is it sunny?"),
    assistant("Let me see.", tool_calls=[call("get_weather", city="Paris"), call("get_weather", city="Rome")]),
    tool("yes"),
    tool("no"),
    assistant("In Paris."),
]
REASONING = [
    user("Is 7 prime?"),
    assistant("Yes.", reasoning_content="2, 3 do not divide it."),
    user("And 9?"),
    assistant("No.", reasoning_content="3 times 3."),
]
THINKING_TAGS = [
    user("Is 7 prime?"),
    assistant("<think>\n2, 3 do not divide it.\n</think>\n\nYes."),
    user("And 9?"),
    assistant("<think>\n3 times 3.\n</think>\n\nNo."),
]
TWICE_IN_A_ROW = [user("Hi"), assistant("One."), assistant("Two."), user("Thank you"), assistant("Bye.")]


def trained(rendered: Rendered) -> list[str]:
    return [rendered.text[start:end] for start, end, _ in rendered.spans]
