"""A verification as JUnit XML, for continuous integration: a suite for each guarantee, a case for each scenario."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from placet.proof.verify.findings import Finding, Guarantee, Verdict, Verification
from placet.rules.showing import escape_for_people


def junit(verification: Verification) -> bytes:
    """What was broken is a failure, what was not run is skipped."""
    suites = Xml.Element("testsuites", name="placet verify")
    for guarantee in Guarantee:
        findings = [finding for finding in verification.findings if finding.guarantee is guarantee]
        if findings:
            suites.append(_suite(guarantee, findings))
    Xml.indent(suites)
    written: bytes = Xml.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _suite(guarantee: Guarantee, findings: list[Finding]) -> Xml.Element:
    verdicts = [finding.verdict for finding in findings]
    suite = Xml.Element(
        "testsuite",
        name=f"{guarantee.name} {guarantee.value}",
        tests=str(len(findings)),
        failures=str(verdicts.count(Verdict.BROKEN)),
        errors="0",
        skipped=str(verdicts.count(Verdict.NOT_PLAYED) + verdicts.count(Verdict.CANNOT_APPLY)),
        time=f"{sum(finding.seconds for finding in findings):.3f}",
    )
    for finding in findings:
        suite.append(_case(finding))
    return suite


def _case(finding: Finding) -> Xml.Element:
    case = Xml.Element(
        "testcase",
        classname=f"placet.verify.{finding.guarantee.name}",
        name=finding.scenario if finding.tool is None else f"{finding.scenario}[{finding.tool}]",
        time=f"{finding.seconds:.3f}",
    )
    told = escape_for_people(finding.told)
    match finding.verdict:
        case Verdict.HELD:
            Xml.SubElement(case, "system-out").text = told
        case Verdict.BROKEN:
            failure = Xml.SubElement(case, "failure", message=told, type="breach")
            failure.text = escape_for_people(finding.next_step)
        case Verdict.NOT_PLAYED | Verdict.CANNOT_APPLY:
            Xml.SubElement(case, "skipped", message=told)
    return case
