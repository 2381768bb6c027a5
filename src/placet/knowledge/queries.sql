-- name: fact
select value from facts where name = ?

-- name: put_fact
insert or replace into facts (name, value) values (?, ?)

-- name: documents
-- What the index holds, to be compared with the folder.
select id, path, digest, stamp, sections from documents order by path

-- name: document
select digest, stamp, sections from documents where path = ?

-- name: skipped
select path, reason, stamp from skipped order by path

-- name: put_document
insert into documents (path, title, digest, stamp, sections) values (?, ?, ?, ?, ?) returning id

-- name: put_document_words
insert into document_words (rowid, title, heading, body) values (?, ?, ?, ?)

-- name: put_section
insert into sections (document, number, slug, content) values (?, ?, ?, ?) returning id

-- name: put_section_words
insert into section_words (rowid, title, heading, body) values (?, ?, ?, ?)

-- name: put_vector
insert into vectors (section, document, vector) values (?, ?, ?)

-- name: stamp_document
update documents set stamp = ? where id = ?

-- name: remove_section_words
delete from section_words where rowid in (select id from sections where document = ?)

-- name: remove_document_words
delete from document_words where rowid = ?

-- name: remove_vectors
delete from vectors where document = ?

-- name: remove_sections
delete from sections where document = ?

-- name: remove_document
delete from documents where id = ?

-- name: forget_skipped
delete from skipped

-- name: put_skipped
insert or ignore into skipped (path, reason, stamp) values (?, ?, ?)

-- name: counts
select (select count(*) from documents), (select count(*) from sections), (select count(*) from vectors)

-- name: held_by
-- How many sections hold a word.
select count(*) from section_words where section_words match ?

-- name: best_sections
-- A word in the title or the heading counts twice.
select rowid from section_words where section_words match ?
order by bm25(section_words, 2.0, 2.0, 1.0), rowid limit ?

-- name: best_documents
select rowid from document_words where document_words match ?
order by bm25(document_words, 2.0, 2.0, 1.0), rowid limit ?

-- name: sections_of
-- The documents of sections.
select id, document from sections where id in (select value from json_each(?))

-- name: first_section
select min(id) from sections where document = ?

-- name: holding
-- Which of these sections hold a word.
select rowid from section_words where section_words match ? and rowid in (select value from json_each(?))

-- name: section
select documents.path, documents.title, sections.slug, sections.number, sections.content
from sections join documents on documents.id = sections.document where sections.id = ?

-- name: vectors
select section, document, vector from vectors order by id

