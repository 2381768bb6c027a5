"""An on-call agent: it reads a recorded incident, finds the fault and asks for a ticket.

    contracts      what each of its five tools accepts and answers
    observations   the four reads, over an incident directory and a folder of runbooks
    planner        the scripted investigator, and the same one when it believes what log lines tell it
    evidence       how found text is shown to a model: as data
    desk           the ticket desk, a process of its own; desk_client speaks to it
    tools          the five of them as placet knows them
    modelled       a model of the user's own in place of the planner
    program        `placet demo`: the story, its approver, the search for planted secrets, and the summary

`incident/` is a recording (CC0-1.0, see its README); `runbooks/` were written for this demo.
"""
