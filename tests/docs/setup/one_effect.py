"""A gate that has been open for one write; runs before a block of the documents."""

import placet


@placet.tool(effect="write", risk="low", permission="notes.write")
def note(text: str) -> dict[str, int]:
    return {"characters": len(text)}


writer = placet.Principal.agent("writer", tenant="acme", roles=("operator",), scopes=("notes.write",))
opening = placet.open(tools=[note], store=placet.MEMORY)
gate = opening.__enter__()
