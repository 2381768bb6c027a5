"""A support agent: it answers from documents, and asks for a draft where they do not say enough.

contracts      what each of its three tools accepts and answers
tools          the three of them as placet knows them
drafts         the drafts service, a process of its own; drafts_client speaks to it
workflow       its six states
words          what the demo says, in English and Chinese
story          `placet demo support`, chapter by chapter; scene: what the chapters share; fooled: a model that obeys
modelled       the same tools, and a model of the user's own in place of the states
program        the command
"""
