// Go's own transparency log code, asked about ours, and made to write a log of its own for us to read.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type inclusion struct {
	Size, Index int64
	Root, Leaf  tlog.Hash
	Proof       []tlog.Hash
}

type consistency struct {
	Size, Old     int64
	Root, OldRoot tlog.Hash
	Proof         []tlog.Hash
}

type head struct{ Vkey, Note string }

type question struct {
	Records     []string
	Roots       []tlog.Hash
	Inclusion   []inclusion
	Consistency []consistency
	Heads       []head
	SigningKey  string
}

// What was accepted, one flag for each thing asked, and a log of Go's making.
type answer struct {
	Roots, Inclusion, Consistency, Heads []bool
	Made                                 struct {
		Note        string
		Inclusion   []inclusion
		Consistency []consistency
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var asked question
	var told answer
	check(json.NewDecoder(os.Stdin).Decode(&asked))

	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var found []tlog.Hash
		for _, index := range indexes {
			found = append(found, stored[index])
		}
		return found, nil
	})
	roots := []tlog.Hash{}
	for size := range asked.Roots {
		if size > 0 {
			made, err := tlog.StoredHashes(int64(size-1), []byte(asked.Records[size-1]), reader)
			check(err)
			stored = append(stored, made...)
		}
		root, err := tlog.TreeHash(int64(size), reader)
		check(err)
		roots = append(roots, root)
		told.Roots = append(told.Roots, root == asked.Roots[size])
	}
	for _, each := range asked.Inclusion {
		err := tlog.CheckRecord(each.Proof, each.Size, each.Root, each.Index, each.Leaf)
		told.Inclusion = append(told.Inclusion, err == nil)
	}
	for _, each := range asked.Consistency {
		err := tlog.CheckTree(each.Proof, each.Size, each.Root, each.Old, each.OldRoot)
		told.Consistency = append(told.Consistency, err == nil)
	}
	for _, each := range asked.Heads {
		verifier, err := note.NewVerifier(each.Vkey)
		if err == nil {
			_, err = note.Open([]byte(each.Note), note.VerifierList(verifier))
		}
		told.Heads = append(told.Heads, err == nil)
	}

	size := int64(len(asked.Records))
	for at := int64(0); at < size; at++ {
		proof, err := tlog.ProveRecord(size, at, reader)
		check(err)
		leaf := tlog.RecordHash([]byte(asked.Records[at]))
		told.Made.Inclusion = append(told.Made.Inclusion, inclusion{size, at, roots[size], leaf, proof})
	}
	for old := int64(1); old <= size; old++ {
		proof, err := tlog.ProveTree(size, old, reader)
		check(err)
		told.Made.Consistency = append(told.Made.Consistency, consistency{size, old, roots[size], roots[old], proof})
	}
	signer, err := note.NewSigner(asked.SigningKey)
	check(err)
	text := signer.Name() + "\n" + strconv.FormatInt(size, 10) + "\n" + roots[size].String() + "\n"
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	check(err)
	told.Made.Note = string(signed)

	var out bytes.Buffer
	check(json.NewEncoder(&out).Encode(told))
	_, err = os.Stdout.Write(out.Bytes())
	check(err)
}
