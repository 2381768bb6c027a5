-- One index, in one file that nobody changes once it has its name.

create table facts (name text primary key, value text not null) strict, without rowid;

-- stamp: size and times when it was read; empty where it may have been written to just then.
create table documents (
    id integer primary key,
    path text not null unique,
    title text not null,
    digest blob not null,
    stamp text not null,
    sections integer not null
) strict;

create table sections (
    id integer primary key,
    document integer not null references documents,
    number integer not null,
    slug text not null,
    content text not null,
    unique (document, number)
) strict;

-- One for each part of a section.
create table vectors (
    id integer primary key,
    section integer not null references sections,
    document integer not null,
    vector blob not null
) strict;
create index vectors_of_a_document on vectors (document);

create table skipped (path text primary key, reason text not null, stamp text not null) strict, without rowid;

-- Words alone: the texts stand in sections, cut by words_of before they come here.
create virtual table section_words using fts5 (
    title, heading, body, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
create virtual table document_words using fts5 (
    title, heading, body, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
